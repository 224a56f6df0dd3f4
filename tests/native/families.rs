//! Published configurations: all keys that transformers knows of a family, and unknown keys.

use std::path::Path;

use indexmap::IndexMap;
use millrace::bench::shapes;
use millrace::blocks::DType;
use millrace::engine::{Engine, LoadOptions};
use millrace::format::gguf;
use millrace::format::{Checkpoint, HfMetadata, Metadata, TensorInfo};
use millrace::layout::BufferId;
use millrace::model::{self, AskedPooling, Model, Reserve};
use millrace::picture::TableResize;
use millrace::source::disk::open_path;
use millrace::weights::Recipe;
use pollster::block_on;
use serde_json::{Map, Value, json};

use crate::common::data;

fn header(config: Map<String, Value>) -> Checkpoint {
    // A class without a head needs modules that say how it pools.
    let class = config["architectures"][0].as_str().unwrap_or_default();
    let pools = json!({ "modules": [{ "kind": "Pooling", "config": { "pooling_mode_mean_tokens": true } }] });
    let sentence =
        pools.as_object().filter(|_| class.ends_with("Model") && !class.ends_with("HeadModel")).cloned().map(Box::new);
    let metadata = Metadata::Hf(HfMetadata { config, sentence, ..HfMetadata::default() });
    Checkpoint { files: Vec::new(), tensors: IndexMap::new(), metadata, tokenizer_files: None, packed: None }
}

fn configs() -> Vec<(String, Map<String, Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/configs");
    let entries = std::fs::read_dir(folder).expect("tests/data/configs");
    let mut all: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("entry").path();
            let text = std::fs::read_to_string(&path).expect("a file");
            (
                path.file_stem().expect("a name").to_string_lossy().into_owned(),
                serde_json::from_str(&text).expect("an object"),
            )
        })
        .collect();
    all.sort_by(|a: &(String, Map<String, Value>), b| a.0.cmp(&b.0));
    all
}

#[test]
fn every_key_that_transformers_writes_is_known() {
    let all = configs();
    assert_eq!(all.len(), 45);
    for (name, config) in all {
        let list = model::list(&header(config)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(list.len() > 100, "{name}: {} tensors", list.len());
    }
}

#[test]
fn a_key_that_nobody_knows_is_refused_by_name() {
    for (name, mut config) in configs() {
        // In models with a vision tower the language model's configuration counts.
        match config.get_mut("text_config") {
            Some(text) => text["attention_gate"] = json!(true),
            None => _ = config.insert("attention_gate".into(), json!(true)),
        }
        let error = model::list(&header(config)).err().unwrap_or_else(|| panic!("{name} is read"));
        assert_eq!(error.code(), "UNSUPPORTED_MODEL", "{name}");
        assert!(error.message().contains("attention_gate"), "{name}: {error}");
    }
}

#[test]
fn an_architecture_that_nobody_knows_lists_those_that_run() {
    let config = json!({ "architectures": ["MambaForCausalLM"] });
    let error = model::list(&header(config.as_object().expect("an object").clone())).expect_err("no such architecture");
    assert_eq!(error.code(), "UNSUPPORTED_MODEL");
    for word in [
        "MambaForCausalLM",
        "qwen3 (Qwen3ForCausalLM, Qwen3Model, LightOnOcrForConditionalGeneration",
        "gemma3 (Gemma3ForCausalLM, Gemma3ForConditionalGeneration)",
        "gpt2",
        "granitemoe",
    ] {
        assert!(error.message().contains(word), "{word} is missing from: {error}");
    }
}

/// A checkpoint with these tensors and nothing in them.
pub fn with_tensors(config: Map<String, Value>, tensors: impl IntoIterator<Item = (String, Vec<u64>)>) -> Checkpoint {
    let info = |(name, shape): (String, Vec<u64>)| {
        let bytes = shape.iter().product::<u64>() * 4;
        (name.clone(), TensorInfo { name, dtype: DType::F32, shape, file: 0, offset: 0, bytes })
    };
    Checkpoint { tensors: tensors.into_iter().map(info).collect(), ..header(config) }
}

/// The model, with its weights reserved nowhere.
pub fn model_of(checkpoint: &Checkpoint) -> millrace::Result<Box<dyn Model>> {
    model::open(
        checkpoint,
        &mut Reserve {
            max_binding: u64::MAX,
            quantize: None,
            pooling: AskedPooling::Auto,
            buffer: &mut |_, _| BufferId(0),
        },
    )
}

fn open(checkpoint: &Checkpoint) -> millrace::Result<()> {
    model_of(checkpoint).map(drop)
}

/// Adapters for the other file format depend on this: where llama.cpp reorders rows of queries and keys, its models
/// rotate otherwise.
#[test]
fn models_whose_rows_llama_cpp_reorders_say_so() {
    let names = std::fs::read_dir(data("oracle"))
        .expect("fixtures")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let read = |path: &str| {
        let checkpoint = block_on(async { Checkpoint::open(&open_path(&data(path))?).await })
            .unwrap_or_else(|e| panic!("{path}: {e}"));
        let config = model_of(&checkpoint).unwrap_or_else(|e| panic!("{path}: {e}")).config().clone();
        (config.stored.reordered, config.ropes.first().is_some_and(|rope| rope.interleaved))
    };
    let mut reordered = Vec::new();
    for name in names
        .filter_map(|name| name.strip_suffix("-hf").map(str::to_owned))
        .filter(|name| data(&format!("oracle/{name}-gguf")).exists())
    {
        let (gguf, hf) = (read(&format!("oracle/{name}-gguf/model.gguf")), read(&format!("oracle/{name}-hf/model")));
        assert_eq!((gguf.0, hf.0), (gguf.1 != hf.1, gguf.1 != hf.1), "{name}");
        reordered.extend(gguf.0.then_some(name));
    }
    reordered.sort();
    assert_eq!(
        reordered,
        [
            "glmocrvl",
            "granite",
            "granite4",
            "granitehybrid",
            "granitehybridmoe",
            "granitemoe",
            "idefics3vl",
            "ministral3",
            "smollm3"
        ]
    );
}

/// Gemma 3 with a vision tower: names as transformers wrote them up to version 4, and since.
#[test]
fn the_language_model_of_a_checkpoint_that_reads_pictures_is_found() {
    let (_, mut config) = configs().into_iter().find(|(name, _)| name == "gemma3-pictures").expect("its configuration");
    for tied in [false, true] {
        config["text_config"]["tie_word_embeddings"] = json!(tied);
        let list = model::list(&header(config.clone())).expect("a list");
        assert_eq!(list.iter().any(|t| t.name == "lm_head.weight"), !tied);
        for (head, prefix, others) in
            [("language_model.", "language_model.model.", ""), ("", "model.language_model.", "model.")]
        {
            let renamed = |name: &str| {
                name.strip_prefix("model.").map_or_else(|| format!("{head}{name}"), |rest| format!("{prefix}{rest}"))
            };
            let mut tensors: Vec<_> = list
                .iter()
                .map(|t| (renamed(&t.name), t.shape.iter().map(|n| *n as u64).collect::<Vec<_>>()))
                .collect();
            tensors.push((format!("{others}vision_tower.vision_model.post_layernorm.weight"), vec![4]));
            tensors.push((format!("{others}multi_modal_projector.mm_input_projection_weight"), vec![4, 4]));
            open(&with_tensors(config.clone(), tensors.clone())).unwrap_or_else(|e| panic!("{prefix}: {e}"));
            tensors.push((format!("{others}audio_tower.norm.weight"), vec![4]));
            let error = open(&with_tensors(config.clone(), tensors)).expect_err("a tensor that nobody knows");
            assert_eq!(error.code(), "UNSUPPORTED_MODEL", "{error}");
            assert!(error.message().contains("audio_tower"), "{error}");
        }
    }
}

/// Relatives of Idefics 3, whose files leave out default values, of the language model and of the vision tower.
#[test]
fn what_smolvlm_leaves_out_is_as_transformers_has_it() {
    let of = |class: &str, text: Value, vision: Value, more: Value| {
        let mut config = json!({ "architectures": [class], "text_config": text, "vision_config": vision, "tie_word_embeddings": false });
        config.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap_or_default());
        header(config.as_object().expect("an object").clone())
    };
    // SmolVLM2-500M's, all of it.
    let small = of(
        "SmolVLMForConditionalGeneration",
        json!({
            "architectures": ["VLlama3ForCausalLM"], "head_dim": 64, "hidden_size": 960, "intermediate_size": 2560, "is_llama_config": true,
            "max_position_embeddings": 8192, "model_type": "llama", "neftune_noise_alpha": 0.0, "num_attention_heads": 15, "num_hidden_layers": 32,
            "num_key_value_heads": 5, "pad_token_id": 2, "pixel_shuffle_factor": 4, "qk_layer_norms": false, "rms_norm_eps": 1e-05,
            "rope_interleaved": false, "rope_theta": 100_000, "torch_dtype": "bfloat16", "use_resampler": false, "vocab_size": 49280
        }),
        json!({
            "hidden_size": 768, "image_size": 512, "max_image_size": { "longest_edge": 512 }, "model_type": "smolvlm_vision", "num_attention_heads": 12,
            "patch_size": 16, "size": { "longest_edge": 2048 }, "tie_word_embeddings": false, "use_base_siglip": false
        }),
        json!({
            "image_token_id": 49190, "model_type": "smolvlm", "pad_token_id": 128_002, "scale_factor": 4, "torch_dtype": "float32", "use_cache": false,
            "transformers_version": "4.47.1", "use_reentrant_checkpointing": false, "vocab_size": 49280
        }),
    );
    // A tile of 384 pixels is 27 patches of 14 and a rest; 32 heads are LlamaConfig's, and not written.
    let large = of(
        "SmolVLMForConditionalGeneration",
        json!({ "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24, "rms_norm_eps": 1e-5, "rope_theta": 130_000, "vocab_size": 49280 }),
        json!({ "image_size": 384, "intermediate_size": 4304, "num_hidden_layers": 27, "patch_size": 14 }),
        json!({ "scale_factor": 3 }),
    );
    // (D, F, layers, heads and their width) of both, patches of a tile, rows of one tile
    for (checkpoint, text, tower, patches, rows) in [
        (small, [960, 2560, 32, 15, 64], [768, 3072, 12, 12, 64], 1024, 64),
        (large, [2048, 8192, 24, 32, 64], [1152, 4304, 27, 16, 72], 729, 81),
    ] {
        let sizes = |c: &model::ModelConfig| [c.width, c.ff, c.layers.len(), c.heads.h, c.heads.e];
        let list = model::list(&checkpoint).expect("a list");
        let shape = |name: &str| {
            list.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("{name} in {list:?}")).shape.clone()
        };
        let up = shape("model.layers.0.mlp.up_proj.weight");
        let q = shape("model.layers.0.self_attn.q_proj.weight");
        let last = list.iter().filter_map(|t| t.layer).max().expect("layers");
        assert_eq!((up, q, last), (vec![text[1], text[0]], vec![text[3] * text[4], text[0]], text[2] - 1));
        assert_eq!(shape("lm_head.weight"), [49280, text[0]]);
        let vision = model::vision::read(&checkpoint).expect("what reads pictures");
        assert_eq!((sizes(&vision.tower), vision.tower.context, vision.width), (tower, patches, text[0]));
        let cut = vision.pictures.cut(1000, 1000).expect("a cut");
        assert_eq!((cut.crops.len(), cut.crops[3].prompt_rows), (17, rows));
    }
    // Every key that transformers knows, in sizes that fit each other.
    for name in ["idefics3", "smolvlm"] {
        let (_, mut config) = configs().into_iter().find(|(of, _)| of == name).expect("its configuration");
        config["vision_config"]["patch_size"] = json!(14);
        assert_eq!(model::vision::read(&header(config.clone())).expect("what reads pictures").positions, [16, 16]);
        config["vision_config"]["attention_gate"] = json!(true);
        let error = model::vision::read(&header(config)).expect_err("a key that nobody knows");
        assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains("attention_gate"), "{error}");
    }
}

/// PaddleOCR-VL, whose published files have the language model's keys at the root, and transformers' own form of them.
#[test]
fn keys_of_the_language_model_may_stand_at_the_root() {
    let published: Value = serde_json::from_str(
        r#"{
        "architectures": ["PaddleOCRVLForConditionalGeneration"], "attention_probs_dropout_prob": 0.0,
        "auto_map": { "AutoModel": "modeling_paddleocr_vl.PaddleOCRVLForConditionalGeneration" },
        "compression_ratio": 1.0, "head_dim": 128, "hidden_act": "silu", "hidden_dropout_prob": 0.0,
        "hidden_size": 1024, "ignored_index": -100, "image_token_id": 100295, "intermediate_size": 3072,
        "max_position_embeddings": 131072, "max_sequence_length": null, "model_type": "paddleocr_vl",
        "num_attention_heads": 16, "num_hidden_layers": 18, "num_key_value_heads": 2, "pad_token_id": 0,
        "rms_norm_eps": 1e-05, "rope_is_neox_style": true,
        "rope_scaling": { "mrope_section": [16, 24, 24], "rope_type": "default", "type": "default" },
        "rope_theta": 500000, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
        "transformers_version": "4.55.0", "use_3d_rope": true, "use_bias": false, "use_cache": false,
        "use_flash_attention": false, "video_token_id": 101307, "vision_end_token_id": 101306,
        "vision_start_token_id": 101305, "vocab_size": 103424, "weight_share_add_bias": true,
        "vision_config": {
            "architectures": ["PaddleOCRVisionModel"], "attention_dropout": 0.0, "hidden_act": "gelu_pytorch_tanh",
            "hidden_size": 1152, "image_size": 384, "intermediate_size": 4304, "layer_norm_eps": 1e-06,
            "model_type": "paddleocr_vl", "num_attention_heads": 16, "num_channels": 3, "num_hidden_layers": 27,
            "pad_token_id": 0, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
            "tokens_per_second": 2, "torch_dtype": "bfloat16"
        }
    }"#,
    )
    .expect("an object");
    let published = published.as_object().expect("an object");
    let (_, of_transformers) = configs().into_iter().find(|(name, _)| name == "paddleocr").expect("its configuration");
    for config in [published, &of_transformers] {
        let list = model::list(&header(config.clone())).expect("a list");
        let shape = |name: &str| list.iter().find(|t| t.name == name).expect(name).shape.clone();
        assert_eq!(list.iter().filter_map(|t| t.layer).max(), Some(17));
        assert_eq!(shape("lm_head.weight"), [103_424, 1024]);
        assert_eq!(shape("model.layers.0.self_attn.q_proj.weight"), [2048, 1024]);
        assert_eq!(shape("model.layers.0.self_attn.k_proj.weight"), [256, 1024]);
        assert_eq!(shape("model.layers.17.mlp.down_proj.weight"), [1024, 3072]);
        let shapes = list.iter().map(|t| (t.name.clone(), t.shape.iter().map(|n| *n as u64).collect::<Vec<_>>()));
        let model = model_of(&with_tensors(config.clone(), shapes)).expect("a model");
        let rope = &model.config().ropes[0];
        let axes = rope.axes.expect("axes");
        assert_eq!((rope.base, rope.interleaved, axes.rows, axes.columns), (500_000.0, false, 24, 24));
        assert_eq!(axes.order, millrace::plan::AxesOrder::Apart);

        let vision = model::vision::read(&header(config.clone())).expect("what reads pictures");
        let c = &vision.tower;
        assert_eq!([c.width, c.ff, c.layers.len(), c.heads.h, c.heads.e], [1152, 4304, 27, 16, 72]);
        assert_eq!((vision.positions, vision.hidden, vision.width, vision.merge), ([27, 27], Some(4608), 1024, 2));
        assert_eq!(vision.table, model::vision::Table::Resized(TableResize::AlignedMiddles));
        assert!(vision.grid && vision.norm.is_some_and(|norm| norm.each && norm.eps == 1e-5));
        // Without a preprocessor_config.json: the first limits, but for what is too much here.
        let rows = |width, height| vision.pictures.cut(width, height).expect("a cut").prompt_rows();
        assert_eq!((rows(10, 10), rows(640, 480), rows(2480, 3508)), (196, 391, 988));
    }
    let changed = |path: &str, key: &str, value: Value| {
        let mut config = Value::Object(published.clone());
        config.pointer_mut(path).expect(path)[key] = value;
        header(config.as_object().expect("an object").clone())
    };
    for (path, key, value) in [
        ("", "attention_gate", json!(true)),
        ("", "use_3d_rope", json!(false)),
        ("", "rope_is_neox_style", json!(false)),
        ("", "compression_ratio", json!(2.0)),
        ("/rope_scaling", "mrope_section", json!([16, 24, 23])),
    ] {
        let error = model::list(&changed(path, key, value)).expect_err(key);
        let named = if path.is_empty() { key } else { "[16, 24, 23] rotated pairs" };
        assert!(error.message().contains(named), "{key}: {error}");
    }
    for (key, value) in [
        ("attention_gate", json!(true)),
        ("num_channels", json!(1)),
        ("interpolation_mode", json!("bicubic")),
        ("rope_parameters", json!({ "rope_type": "axial", "rope_theta": 100.0 })),
    ] {
        let error = model::vision::read(&changed("/vision_config", key, value)).expect_err(key);
        assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains(key), "{key}: {error}");
    }
    let corners = changed("/vision_config", "interpolation_align_corners", json!(true));
    let table = model::vision::read(&corners).expect("what reads pictures").table;
    assert_eq!(table, model::vision::Table::Resized(TableResize::AlignedCorners));
}

/// LightOnOCR, with the keys of Mistral 3 that published files have, and transformers' own form of them.
#[test]
fn what_pixtrals_tower_cannot_be_is_refused_by_name() {
    let published: Value = serde_json::from_str(
        r#"{
        "architectures": ["LightOnOCRForConditionalGeneration"], "dtype": "bfloat16", "eos_token_id": 151645,
        "image_token_id": 151655, "model_type": "mistral3", "multimodal_projector_bias": false, "pad_token_id": 151643,
        "projector_hidden_act": "gelu", "spatial_merge_size": 2, "tie_word_embeddings": true,
        "vision_feature_layer": -1,
        "text_config": {
            "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
            "hidden_size": 1024, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
            "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
            "rms_norm_eps": 1e-06, "rope_theta": 1000000, "sliding_window": null, "use_cache": true,
            "use_qk_norm": true, "use_sliding_window": false, "vocab_size": 151936
        },
        "vision_config": {
            "attention_dropout": 0.0, "head_dim": 64, "hidden_act": "silu", "hidden_size": 1024, "image_size": 1540,
            "initializer_range": 0.02, "intermediate_size": 4096, "model_type": "pixtral", "num_attention_heads": 16,
            "num_channels": 3, "num_hidden_layers": 24, "patch_size": 14, "rope_theta": 10000
        }
    }"#,
    )
    .expect("an object");
    let published = published.as_object().expect("an object");
    let (_, of_transformers) = configs().into_iter().find(|(name, _)| name == "lightonocr").expect("its configuration");
    for config in [published, &of_transformers] {
        let list = model::list(&header(config.clone())).expect("a list");
        let shape = |name: &str| list.iter().find(|t| t.name == name).expect(name).shape.clone();
        assert_eq!(list.iter().filter_map(|t| t.layer).max(), Some(27));
        assert_eq!(shape("model.layers.0.self_attn.q_proj.weight"), [2048, 1024]);
        assert!(list.iter().all(|t| t.name != "lm_head.weight"), "the head is the embedding");
        let vision = model::vision::read(&header(config.clone())).expect("what reads pictures");
        let c = &vision.tower;
        assert_eq!([c.width, c.ff, c.layers.len(), c.heads.h, c.heads.e], [1024, 4096, 24, 16, 64]);
        assert_eq!((vision.merged, vision.hidden, vision.width, vision.merge), (Some(1024), Some(1024), 1024, 2));
        assert_eq!((vision.table, vision.joining), (model::vision::Table::None, model::vision::Joining::Interleaved));
        assert!(vision.norm.is_some_and(|norm| norm.each && norm.eps == 1e-6) && c.eps == 1e-5 && c.context == 4096);
        // Rows have the even ones of 32 frequencies, columns the odd ones.
        let frequencies = c.ropes[0].inverse_frequencies(false).expect("frequencies");
        for (pair, power) in [(0, 0.0), (1, 2.0), (15, 30.0), (16, 1.0), (31, 31.0)] {
            assert!((frequencies[pair] / 10_000_f64.powf(-power / 32.0) - 1.0).abs() < 1e-12, "{frequencies:?}");
        }
        // Up to 1,540 pixels of a side, as far as that is no more than 1,024 rows.
        let rows = |width, height| vision.pictures.cut(width, height).expect("a cut").prompt_rows();
        assert_eq!((rows(10, 10), rows(640, 480), rows(2000, 500), rows(2480, 3508)), (1, 414, 770, 988));
    }
    let changed = |path: &str, key: &str, value: Value| {
        let mut config = Value::Object(published.clone());
        config.pointer_mut(path).expect(path)[key] = value;
        header(config.as_object().expect("an object").clone())
    };
    for (key, value) in [("model_type", json!("llama")), ("attention_gate", json!(true)), ("use_qk_norm", json!(false))]
    {
        let error = model::list(&changed("/text_config", key, value)).expect_err(key);
        assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains(key), "{key}: {error}");
    }
    for (path, key, value) in [
        ("/vision_config", "attention_gate", json!(true)),
        ("/vision_config", "num_channels", json!(1)),
        ("/vision_config", "head_dim", json!(32)),
        ("/vision_config", "rope_theta", json!(100)),
        ("/vision_config", "rope_parameters", json!({ "rope_type": "axial", "rope_theta": 100.0 })),
        ("", "vision_feature_layer", json!(-2)),
        ("", "multimodal_projector_bias", json!(true)),
        ("", "projector_hidden_act", json!("silu")),
    ] {
        let error = model::vision::read(&changed(path, key, value)).expect_err(key);
        assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains(key), "{key}: {error}");
    }
    let error = model::vision::read(&changed("", "spatial_merge_size", json!(0))).expect_err("no rows");
    assert!(error.code() == "BAD_MODEL" && error.message().contains("spatial_merge_size"), "{error}");
}

/// GLM-OCR as published, and transformers' own form of it.
#[test]
fn what_glms_tower_cannot_be_is_refused_by_name() {
    let published: Value = serde_json::from_str(
        r#"{
        "architectures": ["GlmOcrForConditionalGeneration"], "image_end_token_id": 59257, "image_start_token_id": 59256,
        "image_token_id": 59280, "model_type": "glm_ocr", "transformers_version": "5.0.1dev0",
        "video_end_token_id": 59259, "video_start_token_id": 59258, "video_token_id": 59281,
        "text_config": {
            "attention_bias": false, "attention_dropout": 0.0, "dtype": "bfloat16", "eos_token_id": [59246, 59253],
            "head_dim": 128, "hidden_act": "silu", "hidden_size": 1536, "initializer_range": 0.02,
            "intermediate_size": 4608, "max_position_embeddings": 131072, "model_type": "glm_ocr_text",
            "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
            "pad_token_id": 59246, "rms_norm_eps": 1e-05,
            "rope_parameters": {
                "mrope_section": [16, 24, 24], "partial_rotary_factor": 1.0, "rope_theta": 10000, "rope_type": "default"
            },
            "tie_word_embeddings": false, "use_cache": true, "vocab_size": 59392
        },
        "vision_config": {
            "attention_bias": true, "depth": 24, "hidden_act": "silu", "hidden_dropout_prob": 0.0, "hidden_size": 1024,
            "image_size": 336, "initializer_range": 0.02, "intermediate_size": 4096, "model_type": "glm_ocr_vision",
            "num_heads": 16, "out_hidden_size": 1536, "patch_size": 14, "rms_norm_eps": 1e-05, "spatial_merge_size": 2,
            "temporal_patch_size": 2
        }
    }"#,
    )
    .expect("an object");
    let published = published.as_object().expect("an object");
    let (_, of_transformers) = configs().into_iter().find(|(name, _)| name == "glmocr").expect("its configuration");
    // Width, width of a head, pairs of rows and of columns.
    for (config, [text, e, pairs]) in [(published, [1536, 128, 24]), (&of_transformers, [1024, 64, 12])] {
        let list = model::list(&header(config.clone())).expect("a list");
        let shape = |name: &str| list.iter().find(|t| t.name == name).expect(name).shape.clone();
        assert_eq!(list.iter().filter_map(|t| t.layer).max(), Some(15));
        assert_eq!(shape("lm_head.weight"), [59392, text]);
        assert_eq!(shape("model.layers.0.self_attn.k_proj.weight"), [8 * e, text]);
        let shapes = list.iter().map(|t| (t.name.clone(), t.shape.iter().map(|n| *n as u64).collect::<Vec<_>>()));
        let shapes = shapes.chain([("model.layers.16.eh_proj.weight".to_owned(), vec![8, 8])]);
        let opened = model_of(&with_tensors(config.clone(), shapes));
        if config == &of_transformers {
            // Which does not say that there is a further layer.
            let error = opened.err().expect("a tensor that nobody knows");
            assert!(error.message().contains("model.layers.16.eh_proj.weight"), "{error}");
            continue;
        }
        let model = opened.expect("a model");
        assert_eq!(model.left_out().iter().map(|left| left.what.as_str()).collect::<Vec<_>>(), ["model.layers.16."]);
        let rope = &model.config().ropes[0];
        let axes = rope.axes.expect("axes");
        assert_eq!((rope.base, rope.dims, rope.interleaved), (10_000.0, e, true));
        assert_eq!((axes.rows, axes.columns, axes.order), (pairs, pairs, millrace::plan::AxesOrder::Apart));
    }
    for config in [published, &of_transformers] {
        let vision = model::vision::read(&header(config.clone())).expect("what reads pictures");
        let c = &vision.tower;
        assert_eq!([c.width, c.ff, c.layers.len(), c.heads.h, c.heads.e], [1024, 4096, 24, 16, 64]);
        assert!(c.biases.qkv && c.biases.ff && c.eps == 1e-5 && c.context == 4096 && vision.grid);
        assert_eq!(
            (vision.merged, vision.hidden, vision.gated, vision.width, vision.frames),
            (Some(1536), Some(1536), Some(4608), 1536, 2)
        );
        // Limits that count two frames; a page is made smaller, to 1,024 rows.
        let rows = |width, height| vision.pictures.cut(width, height).expect("a cut").prompt_rows();
        assert_eq!((rows(10, 10), rows(640, 480), rows(2480, 3508)), (9, 391, 988));
    }
    let changed = |path: &str, key: &str, value: Value| {
        let mut config = Value::Object(published.clone());
        config.pointer_mut(path).expect(path)[key] = value;
        header(config.as_object().expect("an object").clone())
    };
    for (path, key, value) in [
        ("/text_config", "attention_gate", json!(true)),
        ("/text_config", "attention_bias", json!(true)),
        ("/text_config/rope_parameters", "mrope_section", json!([16, 24, 23])),
        ("/text_config/rope_parameters", "mrope_section", json!(null)),
    ] {
        let error = model::list(&changed(path, key, value)).expect_err(key);
        let named =
            ["attention_gate", "attention_bias", "[16, 24, 23] rotated pairs", "mrope_section of rope_parameters"];
        assert!(named.iter().any(|named| error.message().contains(named)), "{key}: {error}");
    }
    for (key, value) in [
        ("attention_gate", json!(true)),
        ("in_channels", json!(1)),
        ("temporal_patch_size", json!(1)),
        ("rope_parameters", json!({ "rope_type": "axial", "rope_theta": 100.0 })),
    ] {
        let error = model::vision::read(&changed("/vision_config", key, value)).expect_err(key);
        assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains(key), "{key}: {error}");
    }
    // The same projector behind a table of positions is another family's.
    let files = open_path(&data("oracle/glmocrvl-gguf/mmproj-model.gguf")).expect("files");
    let mut checkpoint = block_on(Checkpoint::open(&files)).expect("a file");
    assert!(model::vision::read(&checkpoint).is_ok());
    let norm = checkpoint.tensors["v.post_ln.weight"].clone();
    checkpoint.tensors.insert("v.norm_embd.weight".into(), norm);
    let error = model::vision::read(&checkpoint).expect_err("a norm of patches");
    assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains("v.norm_embd.weight"), "{error}");
}

/// Vision towers and layers that predict further tokens: by name, with their tensors.
#[test]
fn what_is_left_out_of_a_checkpoint_is_told() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle");
    for (name, expected) in [
        ("qwen35-hf/model", &["model.visual.", "mtp."][..]),
        ("qwen35-gguf/model.gguf", &["blk.4."]),
        ("lfm2-gguf/model.gguf", &[]),
    ] {
        let files = open_path(&root.join(name)).expect("files");
        let info = block_on(Engine::inspect(&files, &LoadOptions::default())).expect("a model");
        let mut told: Vec<_> = info.model.left_out.iter().map(|left| left.what.as_str()).collect();
        told.sort_unstable();
        assert_eq!(told, expected, "{name}");
        assert!(info.model.left_out.iter().all(|left| left.tensors > 0 && left.bytes > 0), "{name}");
    }
}

/// Parameters of the published models, from their cards, in millions.
#[test]
fn shapes_have_the_published_numbers_of_parameters() {
    for (name, millions) in [
        ("llama-3.2-1b", 1236.0),
        ("smollm2-135m", 134.5),
        ("tinyllama-1.1b", 1100.0),
        ("falcon3-1b", 1669.0),
        ("mistral-7b", 7248.0),
        ("ministral-8b", 8020.0),
        ("qwen2.5-0.5b", 494.0),
        ("qwen2.5-1.5b", 1544.0),
        ("qwen3-0.6b", 596.0),
        ("gemma-2-2b", 2614.0),
        ("gemma-3-270m", 268.0),
        ("gemma-3-1b", 1000.0),
        ("gemma-4-e2b", 4630.0),
        ("gemma-4-e4b", 7460.0),
        ("gemma-4-26b-a4b", 25230.0),
        ("qwen3-8b", 8191.0),
        ("phi-3.5-mini", 3821.0),
        ("phi-4-mini", 3836.0),
        ("smollm3-3b", 3075.0),
        ("olmo-3-7b", 7298.0),
        ("granite-4.0-micro", 3403.0),
        ("exaone-4.0-1.2b", 1279.0),
        ("ernie-4.5-0.3b", 360.7),
        ("ministral-3-3b", 3429.0),
        ("glm-4-9b", 9400.0),
        ("minicpm4-0.5b", 433.0),
        ("qwen3-vl-2b", 1720.6),
        ("lfm2.5-1.2b", 1170.0),
        ("lfm2.5-350m", 354.0),
        ("lfm2-8b-a1b", 8340.0),
        ("qwen3.5-0.8b", 752.0),
        ("qwen3.5-2b", 1880.0),
        ("qwen3.5-4b", 4206.0),
        ("qwen3.5-9b", 8954.0),
        ("qwen3.5-35b-a3b", 34660.0),
        ("qwen3-next-80b-a3b", 79670.0),
        ("hunyuan-1.8b", 1791.0),
        ("granite-4.0-h-350m", 340.0),
        ("granite-4.0-h-1b", 1460.0),
        ("nemotron-3-nano-30b-a3b", 31578.0),
        ("nemotron-nano-9b-v2", 8888.0),
        ("falcon-h1-0.5b", 521.0),
        ("olmo-2-1b", 1485.0),
        ("granite-3.3-2b", 2534.0),
        ("stablelm-2-1.6b", 1645.0),
        ("gpt2", 124.4),
        ("all-minilm-l6", 22.6),
        ("embeddinggemma-300m", 302.9),
        ("nomic-embed-v1.5", 136.7),
        ("granite-embedding-r2", 149.0),
        ("gpt-oss-20b", 20914.0),
        ("qwen3-30b-a3b", 30532.0),
        ("granite-3.1-1b-a400m", 1335.0),
    ] {
        let checkpoint = shapes::checkpoint(&shapes::find(name).expect("a shape"), Recipe::F16).expect("a header");
        let count = checkpoint.tensors.values().map(|t| t.shape.iter().product::<u64>()).sum::<u64>() as f64 / 1e6;
        assert!((count / millions - 1.0).abs() < 0.01, "{name}: {count} million parameters, published {millions}");
    }
}

/// A head of 262,144 words in halves is 604 MB: under WebGPU's default limits it lies in parts of 128 MiB at most, cut
/// between rows.
#[test]
fn a_matrix_larger_than_a_binding_is_split() {
    const LIMIT: u64 = 128 << 20;
    let checkpoint = shapes::checkpoint(&shapes::find("gemma-3-1b").expect("a shape"), Recipe::F16).expect("a header");
    let mut buffers = Vec::new();
    let mut buffer = |_, bytes| {
        buffers.push(bytes);
        BufferId(buffers.len() as u32 - 1)
    };
    let model = model::open(
        &checkpoint,
        &mut Reserve { max_binding: LIMIT, quantize: None, pooling: AskedPooling::Auto, buffer: &mut buffer },
    )
    .expect("a model");
    let matrices = model.matrices();
    let head = matrices.iter().find(|m| m.n == 262_144).expect("a head");
    assert_eq!(head.parts.len(), 5);
    assert_eq!(head.parts.iter().map(|p| p.rows).sum::<usize>(), 262_144);
    let mut row = 0;
    for part in &head.parts {
        assert_eq!(part.row0, row);
        row += part.rows;
    }
    assert!(buffers.iter().all(|bytes| *bytes <= LIMIT));
}

/// A GGUF file of the oracle with changed metadata and further tensors, and what is read of it.
fn changed(file: &str, change: impl FnOnce(&mut gguf::Metadata), tensors: &[&str]) -> millrace::Result<Box<dyn Model>> {
    let files = open_path(&data("oracle").join(file)).unwrap();
    let mut checkpoint = block_on(Checkpoint::open(&files)).unwrap();
    let Metadata::Gguf(metadata) = &mut checkpoint.metadata else { panic!("{file} is no GGUF") };
    change(metadata);
    let like = checkpoint.tensors.values().next().expect("tensors").clone();
    checkpoint.tensors.extend(tensors.iter().map(|name| ((*name).to_owned(), like.clone())));
    model_of(&checkpoint)
}

/// llama.cpp's defaults for keys that are missing, or whose related key is missing.
#[test]
fn keys_that_are_missing_have_llama_cpps_defaults() {
    let scaling = |keys: &[(&str, gguf::Value)]| {
        let change = |metadata: &mut gguf::Metadata| {
            keys.iter().for_each(|(key, value)| metadata.set(&format!("llama.{key}"), value.clone()))
        };
        let model = changed("gguf-f32/model.gguf", change, &[]).unwrap_or_else(|e| panic!("{keys:?}: {e}"));
        format!("{:?}", model.config().ropes[0].scaling)
    };
    let (four, none) = (|| gguf::Value::F32(4.0), scaling(&[]));
    let text = |text: &str| gguf::Value::Str(text.into());
    let linear = scaling(&[("rope.scaling.type", text("linear")), ("rope.scaling.factor", four())]);
    assert!(none.contains("None") && linear.contains("Linear"), "{none} {linear}");
    for keys in [
        &[("rope.scaling.factor", four())][..],
        &[("rope.scale_linear", four())],
        &[("rope.scaling.type", text("linear")), ("rope.scale_linear", four())],
        &[("rope.scaling.factor", gguf::Value::U32(4))],
        &[("rope.scaling.factor", gguf::Value::Array(gguf::Array::F64(vec![4.0, 4.0])))],
    ] {
        assert_eq!(scaling(keys), linear, "{keys:?}");
    }
    for keys in [
        &[("rope.scaling.factor", gguf::Value::F32(1.0))][..],
        &[("rope.scaling.factor", gguf::Value::F32(0.0))],
        &[("rope.scaling.type", text("none")), ("rope.scaling.factor", four())],
        &[("rope.scaling.type", text("none")), ("rope.scale_linear", four())],
        &[("rope.scaling.type", text("linear"))],
        &[("rope.scaling.finetuned", gguf::Value::Bool(true))],
    ] {
        assert_eq!(scaling(keys), none, "{keys:?}");
    }
    let yarn = scaling(&[("rope.scaling.type", text("yarn")), ("rope.scaling.factor", four())]);
    assert!(yarn.contains("Yarn") && yarn.contains("factor: 4.0"), "{yarn}");
    let without_base = |metadata: &mut gguf::Metadata| {
        let mut rest = gguf::Metadata::default();
        metadata
            .iter()
            .filter(|(key, _)| *key != "llama.rope.freq_base")
            .for_each(|(key, value)| rest.set(key, value.clone()));
        *metadata = rest;
    };
    assert_eq!(changed("gguf-f32/model.gguf", without_base, &[]).unwrap().config().ropes[0].base, 10_000.0);
}

/// A GGUF file of the oracle without some keys of its architecture and with others, and all that is read of it.
fn read_with(file: &str, without: &[&str], with: &[(&str, gguf::Value)]) -> millrace::Result<String> {
    let change = |metadata: &mut gguf::Metadata| {
        let name = metadata.str("general.architecture").expect("an architecture").to_owned();
        let of = |key: &str| format!("{name}.{key}");
        let mut rest = gguf::Metadata::default();
        let kept = metadata.iter().filter(|(key, _)| !without.iter().any(|gone| of(gone) == **key));
        kept.for_each(|(key, value)| rest.set(key, value.clone()));
        with.iter().for_each(|(key, value)| rest.set(&of(key), value.clone()));
        *metadata = rest;
    };
    changed(&format!("{file}/model.gguf"), change, &[]).map(|model| format!("{:?}", model.config()))
}

/// A file's own value of a key of its architecture.
fn own_value(file: &str, key: &str) -> gguf::Value {
    let files = open_path(&data("oracle").join(file).join("model.gguf")).unwrap();
    let checkpoint = block_on(Checkpoint::open(&files)).unwrap();
    let Metadata::Gguf(metadata) = &checkpoint.metadata else { panic!("{file} is no GGUF") };
    let name = metadata.str("general.architecture").unwrap();
    metadata.get(&format!("{name}.{key}")).unwrap_or_else(|| panic!("{key} of {file}")).clone()
}

/// A file, what it also says, and the optional key with its default.
type Row = (&'static str, Vec<(&'static str, gguf::Value)>, &'static str, gguf::Value);

/// A file without an optional key is read as with llama.cpp's default (of llama_model::load_hparams, and of each
/// architecture's load_arch_hparams), whatever else it says.
#[test]
fn each_optional_key_has_llama_cpps_default() {
    use gguf::Value as V;
    let text = |text: &str| V::Str(text.into());
    let yarn = || vec![("rope.scaling.type", text("yarn")), ("rope.scaling.factor", V::F32(4.0))];
    let linear = || vec![("rope.scaling.factor", V::F32(4.0))];
    let window = || vec![("attention.sliding_window", V::U32(8))];
    let own = |file: &str, key: &str| own_value(file, key);
    let rows: Vec<Row> = vec![
        // What all architectures have.
        ("gguf-f32", vec![], "rope.freq_base", V::F32(10_000.0)),
        ("gguf-f32", vec![], "rope.scaling.factor", V::F32(0.0)),
        ("gguf-f32", vec![], "rope.scale_linear", V::F32(0.0)),
        ("gguf-f32", linear(), "rope.scaling.type", text("linear")),
        ("gguf-f32", vec![], "rope.scaling.finetuned", V::Bool(false)),
        ("gguf-f32", yarn(), "rope.scaling.original_context_length", own("gguf-f32", "context_length")),
        ("gguf-f32", yarn(), "rope.scaling.yarn_beta_fast", V::F32(32.0)),
        ("gguf-f32", yarn(), "rope.scaling.yarn_beta_slow", V::F32(1.0)),
        ("gguf-f32", yarn(), "rope.scaling.yarn_log_multiplier", V::F32(0.0)),
        ("gguf-f32", vec![], "rope.scaling.attn_factor", V::F32(1.0)),
        ("gguf-f32", vec![], "rope.dimension_count", V::U32(32)),
        ("gguf-f32", vec![], "rope.dimension_count_swa", V::U32(32)),
        ("gguf-f32", vec![], "attention.key_length", V::U32(32)),
        ("gguf-f32", vec![], "attention.value_length", V::U32(32)),
        ("gguf-f32", vec![], "attention.key_length_swa", V::U32(32)),
        ("gguf-f32", vec![], "attention.value_length_swa", V::U32(32)),
        ("gguf-f32", vec![], "attention.head_count_kv", own("gguf-f32", "attention.head_count")),
        ("gguf-f32", vec![], "attention.causal", V::Bool(true)),
        ("gguf-f32", vec![], "embedding_length_out", own("gguf-f32", "embedding_length")),
        ("gguf-f32", vec![], "pooling_type", V::U32(0)),
        ("gguf-f32", vec![], "vocab_size", own("gguf-f32", "vocab_size")),
        ("gguf-f32", vec![], "expert_count", V::U32(0)),
        ("gguf-f32", vec![], "expert_used_count", V::U32(0)),
        ("gguf-f32", vec![], "expert_group_count", V::U32(0)),
        ("gguf-f32", vec![], "expert_group_used_count", V::U32(0)),
        ("gguf-f32", vec![], "attention.sliding_window", V::U32(0)),
        ("gguf-f32", vec![], "attention.max_alibi_bias", V::F32(0.0)),
        ("gguf-f32", vec![], "attention.clamp_kqv", V::F32(0.0)),
        ("gguf-f32", vec![], "logit_scale", V::F32(0.0)),
        ("gguf-f32", vec![], "rope.scaling.alpha", V::F32(0.0)),
        // Each one's own.
        ("gemma2-gguf", vec![], "attention.sliding_window", V::U32(4096)),
        ("gemma2-gguf", vec![], "attention.sliding_window_pattern", V::U32(2)),
        ("gemma2-gguf", vec![], "attn_logit_softcapping", V::F32(50.0)),
        ("gemma2-gguf", vec![], "final_logit_softcapping", V::F32(30.0)),
        ("gemma2-gguf", vec![("rope.freq_base", V::F32(5000.0))], "rope.freq_base_swa", V::F32(5000.0)),
        ("gemma3-gguf", vec![], "attention.sliding_window", V::U32(0)),
        ("gemma3-gguf", vec![], "attention.sliding_window_pattern", V::U32(6)),
        ("gemma3-gguf", vec![], "rope.freq_base_swa", V::F32(10_000.0)),
        ("gemma3-gguf", vec![], "final_logit_softcapping", V::F32(0.0)),
        ("gemma4-gguf", vec![], "rope.freq_base_swa", V::F32(10_000.0)),
        ("gemma4experts-gguf", vec![], "attention.shared_kv_layers", V::U32(0)),
        ("olmo2-gguf", vec![], "attention.sliding_window", V::U32(0)),
        ("olmo2-gguf", window(), "attention.sliding_window_pattern", V::U32(4)),
        ("olmo3-gguf", vec![], "rope.freq_base_swa", own("olmo3-gguf", "rope.freq_base")),
        ("exaone4-gguf", vec![], "attention.sliding_window", V::U32(0)),
        ("exaone4-gguf", window(), "attention.sliding_window_pattern", V::U32(4)),
        ("exaone4-gguf", window(), "rope.freq_base_swa", own("exaone4-gguf", "rope.freq_base")),
        ("exaone4-gguf", vec![], "nextn_predict_layers", V::U32(0)),
        ("gptoss-gguf", vec![], "attention.sliding_window_pattern", V::U32(2)),
        ("gptoss-gguf", vec![], "rope.freq_base_swa", own("gptoss-gguf", "rope.freq_base")),
        ("phi3-gguf", vec![], "attention.sliding_window", V::U32(0)),
        ("lfm2-gguf", vec![], "attention.sliding_window", V::U32(0)),
        ("lfm2moe-gguf", vec![], "leading_dense_block_count", V::U32(0)),
        ("lfm2moe-gguf", vec![], "expert_weights_scale", V::F32(0.0)),
        ("glm4-gguf", vec![], "nextn_predict_layers", V::U32(0)),
        ("glm4-gguf", vec![], "rope.dimension_sections", V::Array(gguf::Array::I32(vec![0; 4]))),
        ("ernie4_5-gguf", vec![], "rope.dimension_sections", V::Array(gguf::Array::I32(vec![0; 4]))),
        ("granite-gguf", vec![], "residual_scale", V::F32(0.0)),
        ("granite-gguf", vec![], "embedding_scale", V::F32(0.0)),
        ("granite-gguf", vec![], "attention.scale", V::F32(0.0)),
        ("granite-gguf", vec![], "rope.scaling.finetuned", V::Bool(true)),
        ("granite-gguf", vec![], "expert_shared_feed_forward_length", V::U32(0)),
        ("granitemoe-gguf", vec![], "rope.scaling.finetuned", V::Bool(true)),
        ("granitemoe-gguf", vec![], "expert_shared_feed_forward_length", V::U32(0)),
        ("granitehybrid-gguf", vec![], "logit_scale", V::F32(0.0)),
        ("granitehybrid-gguf", vec![], "rope.scaling.finetuned", V::Bool(true)),
        ("minicpm-gguf", vec![], "embedding_scale", V::F32(12.0)),
        ("ministral3-gguf", vec![], "attention.temperature_scale", V::F32(0.0)),
        ("ministral3-gguf", vec![], "rope.scaling.original_context_length", own("ministral3-gguf", "context_length")),
        ("ministral3-gguf", vec![], "rope.scaling.yarn_beta_fast", V::F32(32.0)),
        ("ministral3-gguf", vec![], "rope.scaling.yarn_beta_slow", V::F32(1.0)),
        ("nemotronhmoe-gguf", vec![], "expert_weights_norm", V::Bool(false)),
        ("nemotronhmoe-gguf", vec![], "expert_weights_scale", V::F32(0.0)),
        ("nemotronhmoe-gguf", vec![], "moe_latent_size", V::U32(0)),
        ("qwen35-gguf", vec![], "nextn_predict_layers", V::U32(0)),
        ("qwen35moe-gguf", vec![], "full_attention_interval", V::U32(4)),
        ("qwen3moe-gguf", vec![], "expert_weights_norm", V::Bool(true)),
        ("qwen3moe-gguf", vec![("feed_forward_length", V::U32(96))], "expert_feed_forward_length", V::U32(0)),
        ("qwen35moe-gguf", vec![("feed_forward_length", V::U32(96))], "expert_shared_feed_forward_length", V::U32(96)),
        ("qwen3vl-gguf", vec![], "n_deepstack_layers", V::U32(0)),
        ("stablelm-gguf", vec![], "use_parallel_residual", V::Bool(false)),
    ];
    let mut wrong = Vec::new();
    for (file, beside, key, default) in rows {
        let without = read_with(file, &[key], &beside);
        let given = read_with(file, &[], &[beside, vec![(key, default)]].concat());
        match (&without, &given) {
            (Ok(a), Ok(b)) if a == b => {}
            // Read alike, but the file's tensors are those of another value.
            (Err(a), Err(b)) if a.message() == b.message() && a.message().starts_with("tensor ") => {}
            (Ok(a), Ok(b)) => wrong.push(format!("{file}: {key} is missing: {a}\n  given: {b}")),
            (a, b) => {
                wrong.push(format!("{file}: {key} is missing: {:?}, given: {:?}", a.as_ref().err(), b.as_ref().err()))
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
    // What is not the default is no error that is overlooked.
    for (file, key, value) in [
        ("gguf-f32", "attention.causal", V::Bool(false)),
        ("gguf-f32", "embedding_length_out", V::U32(32)),
        ("gguf-f32", "attention.max_alibi_bias", V::F32(8.0)),
        ("gguf-f32", "expert_group_count", V::U32(4)),
        ("gguf-f32", "attention.key_length_swa", V::U32(16)),
        ("granitemoe-gguf", "expert_shared_feed_forward_length", V::U32(8)),
        ("exaone4-gguf", "nextn_predict_layers", V::U32(1)),
        ("nemotronhmoe-gguf", "moe_latent_size", V::U32(64)),
    ] {
        let error = read_with(file, &[], &[(key, value)]).expect_err(key);
        assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains(key), "{file}: {error}");
    }
}

/// Numbers of every type, and lists that say the same for each layer.
#[test]
fn right_values_come_in_any_type() {
    let of = |key: &str, value: gguf::Value| changed("gguf-f32/model.gguf", |metadata| metadata.set(key, value), &[]);
    let config = |model: Box<dyn Model>| format!("{:?}", model.config());
    let expected = config(changed("gguf-f32/model.gguf", |_| (), &[]).unwrap());
    let files = open_path(&data("oracle/gguf-f32/model.gguf")).unwrap();
    let checkpoint = block_on(Checkpoint::open(&files)).unwrap();
    let Metadata::Gguf(metadata) = &checkpoint.metadata else { panic!("no GGUF") };
    let mut tried = 0;
    for (key, value) in metadata.iter().filter(|(key, _)| key.starts_with("llama.")) {
        let Some(n) = value.as_int() else { continue };
        tried += 1;
        for other in [
            gguf::Value::U64(n as u64),
            gguf::Value::I32(n as i32),
            gguf::Value::F32(n as f32),
            gguf::Value::F64(n as f64),
            gguf::Value::Array(gguf::Array::U32(vec![n as u32; 2])),
            gguf::Value::Array(gguf::Array::I64(vec![n; 3])),
        ] {
            let model = of(key, other.clone()).unwrap_or_else(|e| panic!("{key} as {other:?}: {e}"));
            assert_eq!(config(model), expected, "{key} as {other:?}");
        }
        for wrong in [
            gguf::Value::F32(n as f32 + 0.5),
            gguf::Value::Array(gguf::Array::U32(vec![n as u32, n as u32 + 1])),
            gguf::Value::Array(gguf::Array::U32(vec![])),
        ] {
            assert!(of(key, wrong.clone()).is_err(), "{key} as {wrong:?}");
        }
    }
    assert!(tried > 4, "{tried} keys");
}

/// Towers in the same file as the language model.
#[test]
fn towers_of_a_gguf_file_are_left_out() {
    let vision = |metadata: &mut gguf::Metadata| {
        metadata.set("llama.vision.block_count", gguf::Value::U32(32));
        metadata.set("llama.vision.attention.head_count", gguf::Value::U32(16));
    };
    let model =
        changed("gguf-f32/model.gguf", vision, &["v.patch_embd.weight", "v.blk.0.attn_q.weight", "mm.0.weight"])
            .unwrap();
    let told: Vec<_> = model.left_out().iter().map(|left| (left.what.as_str(), left.tensors)).collect();
    assert_eq!(told, [("v.", 2), ("mm.", 1)]);
    // Unknown tensors of the language model itself: all of them are named.
    let error = changed("gguf-f32/model.gguf", |_| (), &["blk.0.cross_attn_q.weight", "blk.1.cross_attn_q.weight"])
        .err()
        .unwrap();
    assert!(
        error.message().contains("tensors blk.0.cross_attn_q.weight, blk.1.cross_attn_q.weight are not part"),
        "{error}"
    );
}

/// Keys that trainers and tools leave behind in a configuration are ignored; unknown keys that change the model stay
/// errors.
#[test]
fn keys_that_tools_leave_behind_are_harmless() {
    let (_, config) = configs().into_iter().find(|(name, _)| name.starts_with("llama")).expect("its configuration");
    let with = |key: &str, value: Value| {
        let mut config = config.clone();
        config.insert(key.to_owned(), value);
        model::list(&header(config)).map(drop)
    };
    for (key, value) in [
        ("unsloth_version", json!("2026.8.1")),
        ("unsloth_fixed", json!(true)),
        ("_attn_implementation", json!("sdpa")),
        ("use_flash_attention_2", json!(true)),
        ("gradient_checkpointing", json!(false)),
        ("neftune_noise_alpha", json!(5)),
        ("tokenizer_padding_side", json!("right")),
        ("do_sample", json!(true)),
        ("temperature", json!(0.7)),
        ("max_length", json!(20)),
        ("num_beams", json!(1)),
        ("lora_r", json!(16)),
        ("transformers.js_config", json!({ "dtype": "q4" })),
        ("anything", json!(null)),
        ("mlp_only_layers", json!([])),
        ("pruned_heads", json!({})),
        ("add_cross_attention", json!(false)),
        ("is_decoder", json!(false)),
        ("is_causal", json!(true)),
        ("use_mrope", json!(false)),
        ("qkv_bias", json!(false)),
        ("num_labels", json!(2)),
        ("loss_type", json!("ForCausalLM")),
        ("device_map", json!("auto")),
        ("matryoshka_dimensions", json!([256, 512])),
    ] {
        with(key, value).unwrap_or_else(|e| panic!("{key}: {e}"));
    }
    for key in ["use_logn_attn", "attention_sink", "parallel_attn", "rope_ratio", "logit_cap", "value_residual"] {
        assert_eq!(with(key, json!(true)).unwrap_err().code(), "UNSUPPORTED_MODEL", "{key}");
    }
    // The same keys in the other position, and weights of MLX.
    for (key, value) in [
        ("mlp_only_layers", json!([0])),
        ("pruned_heads", json!({ "0": [1] })),
        ("add_cross_attention", json!(true)),
        ("is_causal", json!(false)),
        ("use_mrope", json!(true)),
        ("qkv_bias", json!(true)),
        ("quantization", json!({ "group_size": 64, "bits": 4 })),
    ] {
        let error = with(key, value).expect_err(key);
        assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains(key), "{error}");
    }
    // Scalings that change nothing within the context, and what they leave out.
    for scaling in [
        json!({ "type": "dynamic", "factor": 2.0 }),
        json!({ "type": "yarn", "factor": 4.0 }),
        json!({ "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024 }),
    ] {
        let rotated = with("rope_parameters", json!(null)).and_then(|()| with("rope_scaling", scaling.clone()));
        rotated.unwrap_or_else(|e| panic!("{scaling}: {e}"));
    }
    // Whole numbers written as floats.
    with("num_hidden_layers", json!(2.0)).expect("two layers");
    assert!(with("num_hidden_layers", json!(2.5)).is_err());
}
