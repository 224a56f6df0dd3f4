//! Plans as data: every plan of every architecture is checked for scratch buffers that are overwritten while a later
//! step still needs their contents.

use std::collections::{BTreeMap, BTreeSet};

use millrace::bench::shapes::{ENCODERS, SHAPES, checkpoint, find};
use millrace::decode::build_plans;
use millrace::format::Checkpoint;
use millrace::kernels::{BindingKind, Caps};
use millrace::layout::{Form, Kv, Layout, Name, Scratch, Sizes};
use millrace::model::{self, AskedPooling, Reserve};
use millrace::plan::{Asked, GrammarRoom, Hazard, Lane, Pass, Plan, Plans, Selector, Stage, hazards};
use millrace::weights::Recipe;

/// Devices whose plans differ: with all features, with subgroups only, with subgroup matrices, with none.
fn devices() -> [Caps; 4] {
    let with = |features: &[&str], subgroup| Caps {
        features: features.iter().map(ToString::to_string).collect(),
        subgroup,
        ..Caps::least()
    };
    let matrices = "chromium-experimental-subgroup-matrix";
    [
        with(&["subgroups", "shader-f16"], [32, 32]),
        with(&["subgroups"], [4, 4]),
        with(&["subgroups", "shader-f16", matrices], [32, 32]),
        Caps::least(),
    ]
}

fn plans(
    shape: &str,
    quant: &str,
    caps: &Caps,
    lane: Lane,
    kv: Option<Kv>,
    max_binding: u64,
) -> (Plans, Layout, &'static str) {
    plans_of(&checkpoint(&find(shape).unwrap(), Recipe::parse(quant).unwrap()).unwrap(), caps, lane, kv, max_binding)
}

fn plans_of(
    checkpoint: &Checkpoint,
    caps: &Caps,
    lane: Lane,
    kv: Option<Kv>,
    max_binding: u64,
) -> (Plans, Layout, &'static str) {
    let mut layout = Layout::default();
    let mut buffer = |label, bytes| layout.weight(label, bytes);
    let model = model::open(
        checkpoint,
        &mut Reserve { max_binding, quantize: None, pooling: AskedPooling::Auto, buffer: &mut buffer },
    )
    .unwrap();
    let select = Selector::new(caps, lane, kv, &[]).unwrap();
    let sizes = Sizes { rows: 512, capacity: 1152, slots: 2, ring: 32 };
    let plans = build_plans(
        model.as_ref(),
        &mut layout,
        &select,
        sizes,
        Asked {
            extras: true,
            grammar: Some(GrammarRoom { automaton: 1 << 14, token_bytes: 1 << 12 }),
            rows: true,
            // Plans with another type of keys and values are those of a draft model.
            drafts: kv.is_some(),
        },
    )
    .unwrap();
    (plans, layout, model.config().architecture)
}

/// Every plan of the shapes in these types of weights, on every device and in every lane. Returns the number of plans, and
/// the architectures.
fn look_for_hazards(
    quants: &[(&str, u64)],
    devices: &[Caps],
    lanes: &[(Lane, Option<Kv>)],
) -> (usize, BTreeSet<&'static str>) {
    let mut looked_at = 0;
    let mut known = BTreeSet::new();
    for shape in SHAPES.iter().chain(ENCODERS) {
        for (quant, max_binding) in quants {
            let checkpoint = checkpoint(shape, Recipe::parse(quant).unwrap()).unwrap();
            for caps in devices {
                for (lane, kv) in lanes.iter().copied().filter(|(lane, _)| *lane != Lane::F16 || caps.f16()) {
                    let (plans, layout, architecture) = plans_of(&checkpoint, caps, lane, kv, *max_binding);
                    known.insert(architecture);
                    for (pass, plan) in plans.iter() {
                        let found = hazards(plan, &layout);
                        assert!(found.is_empty(), "{} {quant} {} {pass:?}: {}", shape.name, lane.name(), found[0]);
                        assert!(
                            plan.steps
                                .iter()
                                .all(|step| pass == Pass::Decode || pass.is_step_of_rows() || !step.stage.samples())
                        );
                        looked_at += 1;
                    }
                }
            }
        }
    }
    (looked_at, known)
}

/// Lanes, and types of keys and values, whose plans differ.
const LANES: [(Lane, Option<Kv>); 4] =
    [(Lane::Fast, None), (Lane::Fast, Some(Kv::Q8)), (Lane::F16, None), (Lane::Exact, None)];
/// Types of weights, and the bytes that a device binds, whose plans differ.
const QUANTS: [(&str, u64); 3] = [("q4_0", u64::MAX), ("q4_k_m", 64 << 20), ("f16", u64::MAX)];

#[test]
fn no_plan_overwrites_what_somebody_needs() {
    let [all, few_subgroups, matrices, none] = devices();
    let (looked_at, known) = look_for_hazards(&QUANTS[..1], &[all.clone(), none.clone()], &LANES);
    // Six passes; three lanes or two, and int8 keys and values.
    let shapes = SHAPES.len() + ENCODERS.len();
    assert_eq!(looked_at, shapes * (4 + 3) * 6);
    // Each architecture of the engine has a shape here.
    let missing: Vec<_> =
        model::architectures().filter(|name| *name != "millrace-toy").filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "no shape of {missing:?}");
    // Of other types of weights, devices with all features and with none.
    let (looked_at, _) = look_for_hazards(&QUANTS[1..], &[all, none], &LANES[..1]);
    assert_eq!(looked_at, shapes * 2 * 2 * 6);
    // Of a device between them, the lane that it has by default.
    let (looked_at, _) = look_for_hazards(&QUANTS[..1], &[few_subgroups, matrices], &LANES[..1]);
    assert_eq!(looked_at, shapes * 2 * 6);
}

#[test]
#[ignore = "a minute: npm run test:long"]
fn no_plan_of_any_type_of_weights_overwrites_what_somebody_needs() {
    let (looked_at, _) = look_for_hazards(&QUANTS, &devices(), &LANES);
    assert_eq!(looked_at, (SHAPES.len() + ENCODERS.len()) * 3 * (2 * 4 + 2 * 3) * 6);
}

/// A decode plan of a whole model.
fn sound() -> (Plan, Layout) {
    let (plans, layout, _) = plans("gemma-3-1b", "q4_0", &devices()[0], Lane::Fast, None, u64::MAX);
    assert!(hazards(&plans[Pass::Decode], &layout).is_empty());
    (plans[Pass::Decode].clone(), layout)
}

fn at(plan: &Plan, name: &str) -> usize {
    plan.steps.iter().position(|step| step.name == name).unwrap()
}

#[test]
fn a_plan_broken_on_purpose_is_found() {
    // A step writes a buffer that the next step still needs.
    let (mut plan, layout) = sound();
    let down = at(&plan, "blk.0.down");
    let activations = layout.find(&Name::Scratch(Scratch::Activation(Form::Q8))).unwrap();
    let mut intruder = plan.steps[at(&plan, "blk.0.attention.merge")].clone();
    intruder.name = "intruder".to_owned();
    intruder.reads.clear();
    intruder.bindings.iter_mut().filter(|(name, _)| *name == "yq").for_each(|(_, id)| *id = activations);
    intruder.stage = plan.steps[down].stage;
    plan.steps.insert(down, intruder);
    let found = hazards(&plan, &layout);
    let overwritten = found.iter().find(|h| matches!(h, Hazard::Overwritten { .. })).unwrap();
    assert_eq!(
        overwritten.to_string(),
        "blk.0.down reads Activation(Q8) as blk.0.gate_up has left it, but intruder has written to it since"
    );
    assert!(
        matches!(&found[0], Hazard::Unsaid { reader, .. } if reader == "intruder"),
        "it does not say what it reads: {found:?}"
    );

    // Two steps change places.
    let (mut plan, layout) = sound();
    let merge = at(&plan, "blk.2.attention.merge");
    plan.steps.swap(merge, merge + 1);
    let found = hazards(&plan, &layout);
    assert!(found.iter().any(|h| matches!(h, Hazard::Overwritten { reader, .. } if reader == "blk.2.o")), "{found:?}");

    // A step reads a buffer that no step has written.
    let (mut plan, layout) = sound();
    let first = at(&plan, "blk.0.qkv");
    plan.steps.drain(..first);
    assert!(
        matches!(&hazards(&plan, &layout)[0], Hazard::Unwritten { reader, buffer: Name::Scratch(Scratch::Residual) } if reader == "blk.0.qkv")
    );

    // A buffer that is read and written at one time.
    let (mut plan, layout) = sound();
    let o = at(&plan, "blk.0.o");
    let (_, y) = *plan.steps[o].bindings.iter().find(|(name, _)| *name == "y").unwrap();
    plan.steps[o].bindings.iter_mut().filter(|(name, _)| *name == "xs").for_each(|(_, id)| *id = y);
    assert!(hazards(&plan, &layout).iter().any(|h| matches!(h, Hazard::Bound { step, .. } if step == "blk.0.o")));

    // A later stage before an earlier one.
    let (mut plan, layout) = sound();
    let embed = at(&plan, "token_embd");
    plan.steps[embed].stage = Stage::Head;
    assert_eq!(hazards(&plan, &layout), [Hazard::Order { step: plan.steps[embed + 1].name.clone() }]);
}

#[test]
fn a_layer_of_every_lane_is_six_dispatches() {
    let mut caps = Caps::least();
    caps.features.push("shader-f16".into());
    for lane in [Lane::Fast, Lane::Float, Lane::F16, Lane::Exact] {
        let (plans, ..) = plans("llama-3.2-1b", "q4_0", &caps, lane, None, u64::MAX);
        let layer: Vec<String> = plans[Pass::Decode]
            .steps
            .iter()
            .filter(|s| s.stage == Stage::Layer(1))
            .map(|s| s.variant.to_string())
            .collect();
        assert_eq!(layer.len(), 6, "{}: {layer:?}", lane.name());
    }
}

/// Products of a step of four rows norm them; in a step of eight the product before a norm leaves it open where its own
/// rows are not long. Where products have no room for that, or no subgroups, norms are dispatches.
#[test]
fn norms_of_several_rows_are_parts_of_products() {
    let (lanes, none) = (&devices()[0], &Caps::least());
    // Norms that are dispatches, that products do, that products leave open
    for (shape, caps, pass, [norms, normed, open]) in [
        ("llama-3.2-1b", lanes, Pass::Four, [0, 2, 0]),
        ("llama-3.2-1b", lanes, Pass::Eight, [1, 0, 1]),
        ("llama-3.1-8b", lanes, Pass::Four, [2, 0, 0]),
        ("llama-3.1-8b", lanes, Pass::Eight, [1, 0, 1]),
        // The product behind its attention has 64 blocks a row, and 1,024 rows.
        ("qwen3.5-0.8b", lanes, Pass::Eight, [2, 0, 0]),
        ("qwen3-30b-a3b", lanes, Pass::Eight, [2, 0, 0]),
        ("gemma-3-1b", lanes, Pass::Four, [0, 2, 0]),
        ("gemma-3-1b", lanes, Pass::Eight, [4, 0, 0]),
        ("llama-3.2-1b", none, Pass::Four, [2, 0, 0]),
        ("llama-3.2-1b", none, Pass::Eight, [2, 0, 0]),
    ] {
        let (plans, ..) = plans(shape, "q4_0", caps, Lane::Fast, None, u64::MAX);
        let layer = plans[pass].steps.iter().filter(|s| s.stage == Stage::Layer(1));
        let kernels: Vec<_> = layer.map(|s| s.variant.kernel).collect();
        let count = |kernel| kernels.iter().filter(|k| **k == kernel).count();
        let counts = [count("norm"), count("norm_rows") + count("norm_gated_rows"), count("residual_rows")];
        assert_eq!(counts, [norms, normed, open], "{shape} {} {kernels:?}", pass.name());
    }
}

/// Gemma 4 E2B's last twenty layers read the caches of the fourteenth and fifteenth: of a prompt only its last row goes
/// through them, by a decode step's kernels.
#[test]
fn a_prompt_goes_through_layers_without_a_state_with_its_last_row() {
    for lane in [Lane::Fast, Lane::Exact] {
        let (plans, ..) = plans("gemma-4-e2b", "q4_0", &devices()[0], lane, None, u64::MAX);
        for pass in [Pass::Prefill, Pass::Short, Pass::Few] {
            let tail: Vec<_> = plans[pass].steps.iter().filter(|step| matches!(step.stage, Stage::Tail(_))).collect();
            assert!(
                plans[pass]
                    .steps
                    .iter()
                    .all(|step| step.stage.reads_token() == matches!(step.stage, Stage::Embed | Stage::Layer(_)))
            );
            // The row itself and its per-layer embeddings are copied first.
            assert_eq!(
                tail.iter().map(|step| step.name.as_str()).take(2).collect::<Vec<_>>(),
                ["tail", "tail.per_layer"]
            );
            assert!(tail.iter().all(|step| step.grid.at(512) == step.grid.at(1)), "{pass:?}");
            let of_decode: Vec<_> =
                plans[Pass::Decode].steps.iter().filter(|step| matches!(step.stage, Stage::Tail(_))).collect();
            assert_eq!(of_decode.len(), tail.len() - 2);
            // The first step finds the residual stream complete.
            assert!(
                of_decode
                    .iter()
                    .zip(&tail[2..])
                    .skip(1)
                    .all(|(a, b)| a.variant == b.variant && a.overrides == b.overrides),
                "{pass:?}"
            );
            // Every row is multiplied by only 30 % of the layers' weights.
            let bytes = |stages: fn(Stage) -> bool| {
                plans[Pass::Decode].steps.iter().filter(|s| stages(s.stage)).map(|s| s.bytes).sum::<u64>() as f64
            };
            let share = bytes(|stage| matches!(stage, Stage::Layer(_)))
                / bytes(|stage| matches!(stage, Stage::Layer(_) | Stage::Tail(_)));
            assert!((0.25..0.35).contains(&share), "{share}");
        }
    }
}

/// The tile sizes of a pass's grouped expert products; none where each row reads its experts itself.
fn tiles_of_experts(plan: &Plan) -> BTreeSet<&'static str> {
    plan.steps
        .iter()
        .filter(|step| step.variant.kernel == "experts_matmul")
        .filter_map(|step| step.variant.axis("span"))
        .collect()
}

#[test]
fn rows_are_grouped_by_expert_where_each_has_enough() {
    // Rows of an expert on average: 32, 64, 10 in 512 rows of a prompt, an eighth in 64.
    for (shape, quant, lane, prefill, short) in [
        ("qwen3-30b-a3b", "q4_0", Lane::Fast, "r48", "r16"),
        ("gpt-oss-20b", "q4_0", Lane::Fast, "r64", "r16"),
        ("gpt-oss-20b", "q4_0", Lane::Exact, "r64", "r32"),
        ("qwen3-next-80b-a3b", "q4_0", Lane::Fast, "r16", ""),
    ] {
        let (plans, layout, _) = plans(shape, quant, &devices()[0], lane, None, u64::MAX);
        let one = |pass| tiles_of_experts(&plans[pass]).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(
            (one(Pass::Prefill).as_str(), one(Pass::Short).as_str()),
            (prefill, short),
            "{shape} {}",
            lane.name()
        );
        assert!(
            [Pass::Few, Pass::Decode, Pass::Four, Pass::Eight].into_iter().all(|pass| one(pass).is_empty()),
            "{shape}"
        );
        // The buffer has room for the most tiles.
        let room = layout.spec(layout.find(&Name::Scratch(Scratch::Tiles)).unwrap()).bytes;
        let most = plans[Pass::Prefill]
            .steps
            .iter()
            .filter(|step| step.variant.kernel == "experts_matmul")
            .map(|step| step.grid.at(512)[1])
            .max()
            .unwrap();
        assert!(room >= u64::from(most) * 16);
    }
}

/// Which steps of a greedy decode step write and read each buffer, in the words of docs/ARCHITECTURE.md: steps of a
/// layer without its number.
fn written_and_read(plan: &Plan, layout: &Layout) -> BTreeMap<String, [Vec<String>; 2]> {
    let greedy = |stage| matches!(stage, Stage::Embed | Stage::Layer(0) | Stage::Head | Stage::Choose | Stage::Advance);
    let mut all: BTreeMap<String, [Vec<String>; 2]> = BTreeMap::new();
    for step in plan.steps.iter().filter(|step| greedy(step.stage)) {
        let name = step.name.trim_start_matches("blk.0.").to_owned();
        for (binding, id) in &step.bindings {
            let buffer = &layout.spec(*id).name;
            if buffer.is_weight() {
                continue;
            }
            let writes = step.variant.binding(binding).unwrap().kind == BindingKind::ReadWrite;
            let uses = all.entry(buffer.to_string().replace("blk.0", "blk.N")).or_default();
            for (list, used) in uses.iter_mut().zip([writes, !writes || step.reads_from(*id)]) {
                if used && !list.contains(&name) {
                    list.push(name.clone());
                }
            }
        }
    }
    all
}

#[test]
fn the_documents_say_which_steps_write_and_read_each_buffer_of_a_decode_step() {
    let (plans, layout, _) = plans("llama-3.2-1b", "q4_0", &devices()[1], Lane::Fast, None, u64::MAX);
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("## A decode step on the GPU").unwrap();
    let section = section.split_once("\n## ").unwrap().0;
    let said: Vec<String> = section
        .lines()
        .filter_map(|line| match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
            ["", buffer, _shape, writers, readers, ""] if buffer.starts_with('`') => {
                Some(format!("{buffer} | {writers} | {readers}"))
            }
            _ => None,
        })
        .collect();
    let planned: Vec<String> = written_and_read(&plans[Pass::Decode], &layout)
        .iter()
        .map(|(buffer, uses)| {
            let name = |list: &Vec<String>| if list.len() > 6 { "most steps".to_owned() } else { list.join(", ") };
            let [writers, readers] = uses.each_ref().map(name);
            format!("`{buffer}` | {} | {}", if writers.is_empty() { "the host" } else { &writers }, readers)
        })
        .collect();
    assert_eq!(said.join("\n"), planned.join("\n"), "docs/ARCHITECTURE.md on the left, the plan on the right");
}
