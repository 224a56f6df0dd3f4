//! The description of an engine.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{AdapterAbout, Engine};
use crate::decode::{ProfileRow, Session};
use crate::error::Result;
use crate::kernels::Caps;
use crate::layout::{Layout, Role, Sizes};
use crate::model::{LeftOut, Pooling};
use crate::plan::tuning::LaneChoice;
use crate::plan::{self, Lane, Pass, PlanRow};
use crate::weights::{Conversion, LoadTimes};

/// The description of an engine.
#[derive(Debug, Clone, Serialize)]
pub struct Info {
    /// Version of Millrace.
    pub version: &'static str,
    /// The model.
    pub model: ModelInfo,
    /// The device.
    pub adapter: Caps,
    /// The lane in use.
    pub lane: Lane,
    /// Why this lane, where the caller gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lane_choice: Option<LaneChoice>,
    /// The lanes that this device can run.
    pub lanes: Vec<Lane>,
    /// GPU memory.
    pub memory: MemoryInfo,
    /// Most positions.
    pub context: u32,
    /// Answers at one time.
    pub concurrency: usize,
    /// Opening, downloading and uploading, ms.
    pub load_ms: f64,
    /// The weights' part of `load_ms`, ms.
    pub load_times: LoadTimes,
    /// The result of the self-test.
    pub self_test: SelfTestInfo,
    /// Adapters that are loaded.
    pub adapters: Vec<AdapterAbout>,
    /// The draft model, where one is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<ModelInfo>,
    /// Warnings for users.
    pub warnings: Vec<String>,
    /// Every step of the compiled passes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<PlanRow>,
}

/// Bytes of wasm's memory, which only grows; 0 natively.
fn wasm_bytes() -> u64 {
    #[cfg(target_arch = "wasm32")]
    return core::arch::wasm32::memory_size(0) as u64 * 65_536;
    #[cfg(not(target_arch = "wasm32"))]
    0
}

impl Info {
    /// The description as far as a model and its layout give it; the rest is empty.
    pub(crate) fn new(model: ModelInfo, caps: &Caps, lane: Lane, layout: &Layout, sizes: Sizes, context: u32) -> Self {
        let full = Sizes { capacity: context, ..sizes };
        let memory = MemoryInfo {
            weights: layout.bytes(Role::Weight),
            kv: layout.bytes(Role::State),
            kv_full: layout.specs().iter().filter(|spec| spec.state.is_some()).map(|spec| spec.bytes_at(full)).sum(),
            activations: layout.bytes(Role::Scratch) + layout.bytes(Role::Control),
            spare: crate::decode::most_beside(layout, sizes, context, model.pooling.is_none()),
            total: 0,
            peak: 0,
            wasm: wasm_bytes(),
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            model,
            adapter: caps.clone(),
            lane,
            lane_choice: None,
            lanes: [Lane::Exact, Lane::Float, Lane::F16, Lane::Fast]
                .into_iter()
                .filter(|l| *l != Lane::F16 || caps.f16())
                .collect(),
            memory,
            context,
            concurrency: 1,
            load_ms: 0.0,
            load_times: LoadTimes::default(),
            self_test: SelfTestInfo::default(),
            adapters: Vec::new(),
            draft: None,
            warnings: Vec::new(),
            plan: Vec::new(),
        }
    }
}

/// The self-test at loading.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SelfTestInfo {
    /// Variants that ran; the others have passed on this device before.
    pub checked: usize,
    /// The time of the self-test, ms.
    pub ms: f64,
    /// Variants that computed wrongly and are not used, with the difference.
    pub wrong: Vec<String>,
    /// Why the self-test did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<&'static str>,
}

/// The description of the model.
#[derive(Debug, Clone, Serialize)]
pub struct ModelInfo {
    /// Name from the file, if it has one.
    pub name: Option<String>,
    /// Architecture, by GGUF's name.
    pub architecture: String,
    /// Number of weights.
    pub parameters: u64,
    /// Positions the model was trained for.
    pub context: u32,
    /// Size of the vocabulary.
    pub vocab: usize,
    /// Layers.
    pub layers: usize,
    /// Bytes of all tensors in the checkpoint.
    pub bytes: u64,
    /// Types of the tensors, and how many tensors have each.
    pub types: BTreeMap<String, usize>,
    /// Types that were converted while loading: types that no kernel reads, and quantized ones.
    pub converted: Vec<Conversion>,
    /// Tensors that are not loaded: vision towers, layers that predict further tokens.
    pub left_out: Vec<LeftOut>,
    /// Whether the model has a chat template.
    pub chat: bool,
    /// Whether an answer begins within a thought: the template's text ends with the tag that opens one.
    pub thinks: bool,
    /// Variables of a request that the chat template reads, such as `enable_thinking`.
    pub template_options: Vec<String>,
    /// Whether the model reads pictures.
    pub pictures: bool,
    /// How the model pools a text, where it does not generate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// Dimensions of an embedding, where the model makes embeddings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dimensions: Option<usize>,
    /// Prompts that can be put before texts, by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub prompts: Map<String, Value>,
}

/// GPU memory, in bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct MemoryInfo {
    /// Weights and tables.
    pub weights: u64,
    /// KV cache as it is now.
    pub kv: u64,
    /// The KV cache once the context is full.
    pub kv_full: u64,
    /// Activations.
    pub activations: u64,
    /// The most of the cache's second buffers while it grows, and of copies of texts that prompts may come back to.
    pub spare: u64,
    /// All buffers alive.
    pub total: u64,
    /// The most bytes of buffers alive at one time.
    pub peak: u64,
    /// wasm's own memory, at its largest; 0 natively.
    pub wasm: u64,
}

/// The steps of a draft model's prefill and decode.
fn draft_rows(session: &Session) -> impl Iterator<Item = PlanRow> {
    let passes = [Pass::Prefill, Pass::Decode].into_iter();
    let rows = passes.flat_map(|pass| plan::rows(pass, &session.plans()[pass], session.sizes()));
    rows.map(|row| PlanRow { step: format!("draft.{}", row.step), ..row })
}

impl Engine {
    /// Time, bytes and busy threads of each kernel of a decode step at `position`.
    pub(super) async fn profile(&mut self, position: u32) -> Result<Vec<ProfileRow>> {
        let streaming = self.session.streaming_bandwidth().await?;
        self.session.profile(position, streaming).await
    }

    /// Lane and variants in one line: `fast: matvec q8_0-q8-sg, attention f16-sg, …`.
    pub(super) fn plan_name(&self) -> String {
        let mut variants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for step in &self.session.plans()[Pass::Decode].steps {
            let names = variants.entry(step.variant.kernel).or_default();
            if !names.contains(&step.variant.name) {
                names.push(step.variant.name);
            }
        }
        let list: Vec<String> = variants
            .iter()
            .filter(|(_, names)| names.as_slice() != ["default"])
            .map(|(kernel, names)| format!("{kernel} {}", names.join("+")))
            .collect();
        format!("{}: {}", self.session.lane().name(), list.join(", "))
    }

    /// The description of the engine, its model and its device, with the plan.
    pub fn info(&self) -> Info {
        Info { plan: self.plan_rows(), ..self.about() }
    }

    /// A number that changes whenever [`Engine::plan_rows`] may have changed.
    pub fn plan_edition(&self) -> u32 {
        // No two sessions have the same edition, and later ones are larger.
        self.session.drafter().map_or(0, Session::edition).max(self.session.edition())
    }

    /// Every step of the compiled passes: many rows, which seldom change.
    pub fn plan_rows(&self) -> Vec<PlanRow> {
        let sizes = self.session.sizes();
        let compiled = self.session.plans().iter().filter(|(pass, _)| self.session.has(*pass));
        let own = compiled.flat_map(|(pass, plan)| plan::rows(pass, plan, sizes));
        own.chain(self.session.drafter().into_iter().flat_map(draft_rows)).collect()
    }

    /// [`Engine::info`] without the plan.
    pub fn about(&self) -> Info {
        let layout = self.session.layout();
        let sizes = self.session.sizes();
        let counters = self.session.gpu().counters();
        let mut info = Info::new(
            self.model.clone(),
            self.session.gpu().caps(),
            self.session.lane(),
            layout,
            sizes,
            self.session.context(),
        );
        info.memory.total = counters.snapshot().gpu_bytes;
        info.memory.peak = counters.peak_gpu_bytes();
        let lane_choice = self.session.lane_choice().cloned();
        let (self_test, concurrency, adapters, draft) =
            (self.self_test.clone(), self.concurrency(), self.adapters().cloned().collect(), self.draft().cloned());
        Info {
            lane_choice,
            concurrency,
            adapters,
            draft,
            load_ms: self.load_ms,
            load_times: self.load_times,
            self_test,
            warnings: self.warnings(),
            ..info
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = [self.session.warnings(), self.tokenizer.warnings()].concat();
        warnings.extend(self.draft_warnings());
        if let Some(why) = &self.session.gpu().caps().instead {
            warnings.push(format!("the model runs on the CPU, because {why}"));
        }
        let config = self.session.model().config();
        if config.architecture == "gemma-embedding" && config.dense.is_empty() {
            warnings.push(
                "this file lacks the two dense layers behind EmbeddingGemma's mean: its vectors are others than the model's; take one that has them".into(),
            );
        }
        let (context, trained) = (self.session.context(), self.session.model().config().context);
        if self.options.context.is_none() && context < trained {
            warnings.push(format!(
                "the context is {context} tokens instead of the model's {trained}: this GPU has no room for a longer one; kv q8 takes about half"
            ));
        }
        let wrong = &self.self_test.wrong;
        if wrong.is_empty() {
            return warnings;
        }
        let (wanted, lane) = (self.options.lane.name(), self.session.lane().name());
        let instead = if wanted == lane || wanted == "auto" {
            format!("other variants of lane {lane}")
        } else {
            format!("lane {lane} instead of {wanted}")
        };
        warnings.push(format!(
            "this GPU or its driver computes wrongly, so the engine runs {instead}: {}; please report it",
            wrong.join("; ")
        ));
        warnings
    }
}
