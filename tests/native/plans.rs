//! Plans as data: every plan of every architecture is looked through for scratch buffers that are written while somebody still needs what they held.

use std::collections::BTreeSet;

use millrace::bench::shapes::{SHAPES, checkpoint, find};
use millrace::decode::build_plans;
use millrace::kernels::Caps;
use millrace::layout::{Form, Kv, Layout, Name, Scratch, Sizes};
use millrace::model::{self, Reserve};
use millrace::plan::{Asked, GrammarRoom, Hazard, Lane, Pass, Plan, Plans, Selector, Stage, hazards};
use millrace::weights::Recipe;

/// Devices whose plans differ: with everything, with subgroups only, with subgroup matrices, with nothing.
fn devices() -> [Caps; 4] {
    let with = |features: &[&str], subgroup| Caps { features: features.iter().map(ToString::to_string).collect(), subgroup, ..Caps::least() };
    let matrices = "chromium-experimental-subgroup-matrix";
    [with(&["subgroups", "shader-f16"], [32, 32]), with(&["subgroups"], [4, 4]), with(&["subgroups", "shader-f16", matrices], [32, 32]), Caps::least()]
}

fn plans(shape: &str, quant: &str, caps: &Caps, lane: Lane, kv: Option<Kv>, max_binding: u64) -> (Plans, Layout, &'static str) {
    let checkpoint = checkpoint(&find(shape).unwrap(), Recipe::parse(quant).unwrap()).unwrap();
    let mut layout = Layout::default();
    let mut buffer = |label, bytes| layout.weight(label, bytes);
    let model = model::open(&checkpoint, &mut Reserve { max_binding, quantize: None, buffer: &mut buffer }).unwrap();
    let select = Selector::new(caps, lane, kv, &[]).unwrap();
    let sizes = Sizes { rows: 512, capacity: 1152, slots: 1, ring: 32 };
    let plans = build_plans(
        model.as_ref(),
        &mut layout,
        &select,
        sizes,
        Asked { extras: true, grammar: Some(GrammarRoom { automaton: 1 << 14, token_bytes: 1 << 12 }) },
    )
    .unwrap();
    (plans, layout, model.config().architecture)
}

#[test]
fn no_plan_overwrites_what_somebody_needs() {
    let mut looked_at = 0;
    let mut known = BTreeSet::new();
    for shape in SHAPES {
        for (quant, max_binding) in [("q4_0", u64::MAX), ("q4_k_m", 64 << 20), ("f16", u64::MAX)] {
            for caps in devices() {
                for (lane, kv) in [(Lane::Fast, None), (Lane::Fast, Some(Kv::Q8)), (Lane::F16, None), (Lane::Exact, None)] {
                    if lane == Lane::F16 && !caps.f16() {
                        continue;
                    }
                    let (plans, layout, architecture) = plans(shape.name, quant, &caps, lane, kv, max_binding);
                    known.insert(architecture);
                    for (pass, plan) in plans.iter() {
                        let found = hazards(plan, &layout);
                        assert!(found.is_empty(), "{} {quant} {} {pass:?}: {}", shape.name, lane.name(), found[0]);
                        assert!(plan.steps.iter().all(|step| pass == Pass::Decode || !step.stage.samples()));
                        looked_at += 1;
                    }
                }
            }
        }
    }
    // Four passes; three lanes or two, and int8 keys and values.
    assert_eq!(looked_at, SHAPES.len() * 3 * (2 * 4 + 2 * 3) * 4);
    // Each architecture is there that the engine knows.
    let missing: Vec<_> = model::architectures().filter(|name| *name != "millrace-toy").filter(|name| !known.contains(name)).collect();
    assert!(missing.is_empty(), "no shape of {missing:?}");
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
    // Somebody takes a buffer for free that the next step still needs.
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
    assert_eq!(overwritten.to_string(), "blk.0.down reads Activation(Q8) as blk.0.gate_up has left it, but intruder has written to it since");
    assert!(matches!(&found[0], Hazard::Unsaid { reader, .. } if reader == "intruder"), "it does not say what it reads: {found:?}");

    // Two steps change places.
    let (mut plan, layout) = sound();
    let merge = at(&plan, "blk.2.attention.merge");
    plan.steps.swap(merge, merge + 1);
    let found = hazards(&plan, &layout);
    assert!(found.iter().any(|h| matches!(h, Hazard::Overwritten { reader, .. } if reader == "blk.2.o")), "{found:?}");

    // What nothing has written yet.
    let (mut plan, layout) = sound();
    let first = at(&plan, "blk.0.qkv");
    plan.steps.drain(..first);
    assert!(matches!(&hazards(&plan, &layout)[0], Hazard::Unwritten { reader, buffer: Name::Scratch(Scratch::Residual) } if reader == "blk.0.qkv"));

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
