"""A random model that reads pictures, in the shapes of a published one, as a folder: for measuring, since published weights need a download.

    python3 scripts/random_vl.py OUTDIR [--shape lfm2.5-vl-450m | qwen3.5-0.8b | paddleocr-vl-0.9b | lightonocr-1b | glm-ocr-0.9b | smolvlm-256m |
        smolvlm-2.2b | gemma-4-e2b] [--tokenizer FOLDER]

Needs numpy alone. Weights are BF16, drawn so that numbers stay small, and repeat in large tensors; what it says is noise. gemma-4-e2b is 10 GB. Tokenizer and template are those of a small model of the same
family among the tests' data.
"""

import argparse
import json
import shutil
import struct
from pathlib import Path

import numpy as np


def linear(name, n, k, bias=False):
    """The weight of a product, and its bias."""
    yield name + ".weight", (n, k), False
    if bias:
        yield name + ".bias", (n,), False


def norm(name, n, bias=False):
    yield name + ".weight", (n,), True
    if bias:
        yield name + ".bias", (n,), False


def siglip(tower, vision, side):
    """A SigLIP tower whose table of positions is for pictures of `side` pixels."""
    d, f, patch = vision["D"], vision["F"], vision["patch"]
    yield tower + "embeddings.patch_embedding.weight", (d, 3, patch, patch), False
    yield tower + "embeddings.patch_embedding.bias", (d,), False
    yield from linear(tower + "embeddings.position_embedding", (side // patch) ** 2, d)
    for i in range(vision["L"]):
        at = f"{tower}encoder.layers.{i}."
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            yield from linear(f"{at}self_attn.{part}", d, d, True)
        yield from linear(at + "mlp.fc1", f, d, True)
        yield from linear(at + "mlp.fc2", d, f, True)
        yield from norm(at + "layer_norm1", d, True)
        yield from norm(at + "layer_norm2", d, True)
    yield from norm(tower + "post_layernorm", d, True)


class Lfm2Vl:
    TOKENIZER = "tests/data/oracle/lfm2vl-hf/model"
    TEXT = {"D": 1024, "L": 16, "H": 16, "G": 8, "F": 4608, "V": 65536, "attention": (2, 5, 8, 10, 12, 14)}
    VISION = {"D": 768, "F": 3072, "L": 12, "H": 12, "patch": 16, "positions": 256}
    PROJECTOR = 2048

    def config(self):
        text, vision = self.TEXT, self.VISION
        return {
            "architectures": ["Lfm2VlForConditionalGeneration"],
            "model_type": "lfm2_vl",
            "downsample_factor": 2,
            "image_token_id": 396,
            "projector_hidden_size": self.PROJECTOR,
            "projector_hidden_act": "gelu",
            "projector_bias": True,
            "projector_use_layernorm": False,
            "text_config": {
                "model_type": "lfm2",
                "vocab_size": text["V"],
                "hidden_size": text["D"],
                "intermediate_size": 6656,
                "num_hidden_layers": text["L"],
                "num_attention_heads": text["H"],
                "num_key_value_heads": text["G"],
                "max_position_embeddings": 128000,
                "norm_eps": 1e-5,
                "rope_theta": 1000000.0,
                "conv_L_cache": 3,
                "conv_bias": False,
                "block_auto_adjust_ff_dim": True,
                "block_ffn_dim_multiplier": 1.0,
                "block_multiple_of": 256,
                "tie_word_embeddings": True,
                "layer_types": ["full_attention" if i in text["attention"] else "conv" for i in range(text["L"])],
            },
            "vision_config": {
                "model_type": "siglip2_vision_model",
                "hidden_size": vision["D"],
                "intermediate_size": vision["F"],
                "num_hidden_layers": vision["L"],
                "num_attention_heads": vision["H"],
                "num_channels": 3,
                "num_patches": vision["positions"],
                "patch_size": vision["patch"],
                "layer_norm_eps": 1e-6,
                "hidden_act": "gelu_pytorch_tanh",
                "vision_use_head": False,
            },
        }

    def tensors(self):
        """Names, shapes, and the mean of each: 1 for norms' weights."""
        text = self.TEXT
        d, f, e = text["D"], text["F"], text["D"] // text["H"]
        model = "model.language_model."
        yield from linear(model + "embed_tokens", text["V"], d)
        yield from norm(model + "embedding_norm", d)
        for i in range(text["L"]):
            at = f"{model}layers.{i}."
            yield from norm(at + "operator_norm", d)
            yield from norm(at + "ffn_norm", d)
            if i in text["attention"]:
                for part, n in [("q_proj", d), ("k_proj", text["G"] * e), ("v_proj", text["G"] * e), ("out_proj", d)]:
                    yield from linear(f"{at}self_attn.{part}", n, d)
                yield from norm(at + "self_attn.q_layernorm", e)
                yield from norm(at + "self_attn.k_layernorm", e)
            else:
                yield from linear(at + "conv.in_proj", 3 * d, d)
                yield at + "conv.conv.weight", (d, 1, 3), False
                yield from linear(at + "conv.out_proj", d, d)
            for part, n, k in [("w1", f, d), ("w3", f, d), ("w2", d, f)]:
                yield from linear(f"{at}feed_forward.{part}", n, k)
        vision = self.VISION
        d, f = vision["D"], vision["F"]
        tower = "model.vision_tower.vision_model."
        yield from linear(tower + "embeddings.patch_embedding", d, 3 * vision["patch"] ** 2, True)
        yield from linear(tower + "embeddings.position_embedding", vision["positions"], d)
        for i in range(vision["L"]):
            at = f"{tower}encoder.layers.{i}."
            for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
                yield from linear(f"{at}self_attn.{part}", d, d, True)
            yield from linear(at + "mlp.fc1", f, d, True)
            yield from linear(at + "mlp.fc2", d, f, True)
            yield from norm(at + "layer_norm1", d, True)
            yield from norm(at + "layer_norm2", d, True)
        yield from norm(tower + "post_layernorm", d, True)
        yield from linear("model.multi_modal_projector.linear_1", self.PROJECTOR, 4 * d, True)
        yield from linear("model.multi_modal_projector.linear_2", text["D"], self.PROJECTOR, True)


class Qwen35:
    TOKENIZER = "tests/data/oracle/qwen35vl-hf/model"
    VISION = {"D": 768, "F": 3072, "L": 12, "H": 12, "patch": 16, "frames": 2, "positions": 48 * 48}

    def config(self):
        """The language model's configuration is the one that the benchmarks have."""
        config = json.loads(Path("src/bench/configs/qwen3.5-0.8b.json").read_text())
        vision = self.VISION
        return {
            **config,
            "model_type": "qwen3_5",
            "vision_config": {
                "model_type": "qwen3_5",
                "depth": vision["L"],
                "hidden_size": vision["D"],
                "intermediate_size": vision["F"],
                "num_heads": vision["H"],
                "in_channels": 3,
                "patch_size": vision["patch"],
                "temporal_patch_size": vision["frames"],
                "spatial_merge_size": 2,
                "num_position_embeddings": vision["positions"],
                "out_hidden_size": config["text_config"]["hidden_size"],
                "hidden_act": "gelu_pytorch_tanh",
                "deepstack_visual_indexes": [],
            },
        }

    def tensors(self):
        """Names, shapes, and whether each is a norm's weight (less 1, as these models have theirs)."""
        text = self.config()["text_config"]
        d, f, e, h, g = (text[key] for key in ("hidden_size", "intermediate_size", "head_dim", "num_attention_heads", "num_key_value_heads"))
        heads, key, value = text["linear_num_value_heads"], text["linear_key_head_dim"], text["linear_value_head_dim"]
        values, channels = heads * value, 2 * text["linear_num_key_heads"] * key + heads * value
        model = "model.language_model."
        yield from linear(model + "embed_tokens", text["vocab_size"], d)
        yield model + "norm.weight", (d,), False
        for i in range(text["num_hidden_layers"]):
            at = f"{model}layers.{i}."
            yield at + "input_layernorm.weight", (d,), False
            yield at + "post_attention_layernorm.weight", (d,), False
            if (i + 1) % text["full_attention_interval"] == 0:
                for part, n, k in [("q_proj", 2 * h * e, d), ("k_proj", g * e, d), ("v_proj", g * e, d), ("o_proj", d, h * e)]:
                    yield from linear(f"{at}self_attn.{part}", n, k)
                yield at + "self_attn.q_norm.weight", (e,), False
                yield at + "self_attn.k_norm.weight", (e,), False
            else:
                for part, n in [("in_proj_qkv", channels), ("in_proj_z", values), ("in_proj_a", heads), ("in_proj_b", heads)]:
                    yield from linear(f"{at}linear_attn.{part}", n, d)
                yield at + "linear_attn.conv1d.weight", (channels, 1, text["linear_conv_kernel_dim"]), False
                yield at + "linear_attn.A_log", (heads,), False
                yield at + "linear_attn.dt_bias", (heads,), False
                yield from norm(at + "linear_attn.norm", value)
                yield from linear(at + "linear_attn.out_proj", d, values)
            for part, n, k in [("gate_proj", f, d), ("up_proj", f, d), ("down_proj", d, f)]:
                yield from linear(f"{at}mlp.{part}", n, k)
        vision = self.VISION
        width, f = vision["D"], vision["F"]
        tower = "model.visual."
        yield tower + "patch_embed.proj.weight", (width, 3, vision["frames"], vision["patch"], vision["patch"]), False
        yield tower + "patch_embed.proj.bias", (width,), False
        yield from linear(tower + "pos_embed", vision["positions"], width)
        for i in range(vision["L"]):
            at = f"{tower}blocks.{i}."
            for part, n, k in [("attn.qkv", 3 * width, width), ("attn.proj", width, width), ("mlp.linear_fc1", f, width), ("mlp.linear_fc2", width, f)]:
                yield from linear(at + part, n, k, True)
            yield from norm(at + "norm1", width, True)
            yield from norm(at + "norm2", width, True)
        yield from norm(tower + "merger.norm", width, True)
        yield from linear(tower + "merger.linear_fc1", 4 * width, 4 * width, True)
        yield from linear(tower + "merger.linear_fc2", d, 4 * width, True)


class SmolVlm:
    TOKENIZER = "tests/data/oracle/idefics3vl-hf/model"

    def __init__(self, text, vision):
        self.text, self.vision = text, vision

    def config(self):
        text, vision = self.text, self.vision
        return {
            "architectures": ["Idefics3ForConditionalGeneration"],
            "model_type": "idefics3",
            "image_token_id": 49190,
            "scale_factor": vision["scale"],
            "tie_word_embeddings": False,
            "text_config": {
                "model_type": "llama",
                "vocab_size": text["V"],
                "hidden_size": text["D"],
                "intermediate_size": text["F"],
                "num_hidden_layers": text["L"],
                "num_attention_heads": text["H"],
                "num_key_value_heads": text["G"],
                "max_position_embeddings": 8192,
                "rms_norm_eps": 1e-5,
                "rope_theta": 100000,
            },
            "vision_config": {
                "model_type": "idefics3_vision",
                "hidden_size": vision["D"],
                "intermediate_size": vision["F"],
                "num_hidden_layers": vision["L"],
                "num_attention_heads": vision["H"],
                "image_size": vision["tile"],
                "patch_size": vision["patch"],
            },
        }

    def tensors(self):
        """Names, shapes, and the mean of each: 1 for norms' weights."""
        text = self.text
        d, f, e = text["D"], text["F"], text["D"] // text["H"]
        yield from linear("lm_head", text["V"], d)
        yield from linear("model.text_model.embed_tokens", text["V"], d)
        yield from norm("model.text_model.norm", d)
        for i in range(text["L"]):
            at = f"model.text_model.layers.{i}."
            yield from norm(at + "input_layernorm", d)
            yield from norm(at + "post_attention_layernorm", d)
            for part, n in [("q_proj", d), ("k_proj", text["G"] * e), ("v_proj", text["G"] * e), ("o_proj", d)]:
                yield from linear(f"{at}self_attn.{part}", n, d)
            for part, n, k in [("gate_proj", f, d), ("up_proj", f, d), ("down_proj", d, f)]:
                yield from linear(f"{at}mlp.{part}", n, k)
        vision = self.vision
        yield from siglip("model.vision_model.", vision, vision["tile"])
        yield from linear("model.connector.modality_projection.proj", text["D"], vision["scale"] ** 2 * vision["D"])


class PaddleOcrVl:
    TOKENIZER = "tests/data/oracle/paddleocrvl-hf/model"
    VISION = {"D": 1152, "F": 4304, "L": 27, "H": 16, "patch": 14, "image": 384, "merge": 2}

    def config(self):
        """The language model's configuration is the one that the benchmarks have."""
        vision = self.VISION
        return {
            **json.loads(Path("src/bench/configs/paddleocr-vl-0.9b.json").read_text()),
            "model_type": "paddleocr_vl",
            "image_token_id": 100295,
            "vision_config": {
                "model_type": "paddleocr_vl",
                "hidden_size": vision["D"],
                "intermediate_size": vision["F"],
                "num_hidden_layers": vision["L"],
                "num_attention_heads": vision["H"],
                "image_size": vision["image"],
                "patch_size": vision["patch"],
                "spatial_merge_size": vision["merge"],
            },
        }

    def tensors(self):
        """Names, shapes, and the mean of each: 1 for norms' weights."""
        text = self.config()
        d, f, e, h, g = (text[key] for key in ("hidden_size", "intermediate_size", "head_dim", "num_attention_heads", "num_key_value_heads"))
        yield from linear("lm_head", text["vocab_size"], d)
        yield from linear("model.embed_tokens", text["vocab_size"], d)
        yield from norm("model.norm", d)
        for i in range(text["num_hidden_layers"]):
            at = f"model.layers.{i}."
            yield from norm(at + "input_layernorm", d)
            yield from norm(at + "post_attention_layernorm", d)
            for part, n, k in [("q_proj", h * e, d), ("k_proj", g * e, d), ("v_proj", g * e, d), ("o_proj", d, h * e)]:
                yield from linear(f"{at}self_attn.{part}", n, k)
            for part, n, k in [("gate_proj", f, d), ("up_proj", f, d), ("down_proj", d, f)]:
                yield from linear(f"{at}mlp.{part}", n, k)
        vision = self.VISION
        yield from siglip("visual.vision_model.", vision, vision["image"])
        joined = vision["merge"] ** 2 * vision["D"]
        yield from norm("mlp_AR.pre_norm", vision["D"], True)
        yield from linear("mlp_AR.linear_1", joined, joined, True)
        yield from linear("mlp_AR.linear_2", d, joined, True)


class LightOnOcr:
    TOKENIZER = "tests/data/oracle/lightonocrvl-hf/model"
    VISION = {"D": 1024, "F": 4096, "L": 24, "H": 16, "patch": 14, "image": 1540, "merge": 2}

    def config(self):
        """The language model's configuration is that of Qwen 3 0.6B, which the benchmarks have."""
        text, vision = json.loads(Path("src/bench/configs/qwen3-0.6b.json").read_text()), self.VISION
        text.pop("architectures")
        return {
            "architectures": ["LightOnOcrForConditionalGeneration"],
            "model_type": "lighton_ocr",
            "image_token_id": 151655,
            "spatial_merge_size": vision["merge"],
            "tie_word_embeddings": True,
            "text_config": {**text, "model_type": "qwen3"},
            "vision_config": {
                "model_type": "pixtral",
                "hidden_size": vision["D"],
                "intermediate_size": vision["F"],
                "num_hidden_layers": vision["L"],
                "num_attention_heads": vision["H"],
                "image_size": vision["image"],
                "patch_size": vision["patch"],
                "hidden_act": "silu",
            },
        }

    def tensors(self):
        """Names, shapes, and the mean of each: 1 for norms' weights."""
        text = self.config()["text_config"]
        d, f, e, h, g = (text[key] for key in ("hidden_size", "intermediate_size", "head_dim", "num_attention_heads", "num_key_value_heads"))
        model = "model.language_model."
        yield from linear(model + "embed_tokens", text["vocab_size"], d)
        yield from norm(model + "norm", d)
        for i in range(text["num_hidden_layers"]):
            at = f"{model}layers.{i}."
            for part, n in [("input_layernorm", d), ("post_attention_layernorm", d), ("self_attn.q_norm", e), ("self_attn.k_norm", e)]:
                yield from norm(at + part, n)
            for part, n, k in [("q_proj", h * e, d), ("k_proj", g * e, d), ("v_proj", g * e, d), ("o_proj", d, h * e)]:
                yield from linear(f"{at}self_attn.{part}", n, k)
            for part, n, k in [("gate_proj", f, d), ("up_proj", f, d), ("down_proj", d, f)]:
                yield from linear(f"{at}mlp.{part}", n, k)
        vision = self.VISION
        width, f, patch = vision["D"], vision["F"], vision["patch"]
        yield "model.vision_encoder.patch_conv.weight", (width, 3, patch, patch), False
        yield from norm("model.vision_encoder.ln_pre", width)
        for i in range(vision["L"]):
            at = f"model.vision_encoder.transformer.layers.{i}."
            yield from norm(at + "attention_norm", width)
            yield from norm(at + "ffn_norm", width)
            for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
                yield from linear(f"{at}attention.{part}", width, width)
            for part, n, k in [("gate_proj", f, width), ("up_proj", f, width), ("down_proj", width, f)]:
                yield from linear(f"{at}feed_forward.{part}", n, k)
        projector = "model.vision_projection."
        yield from norm(projector + "norm", width)
        yield from linear(projector + "patch_merger.merging_layer", width, vision["merge"] ** 2 * width)
        yield from linear(projector + "linear_1", d, width)
        yield from linear(projector + "linear_2", d, d)


class GlmOcr:
    TOKENIZER = "tests/data/oracle/glmocrvl-hf/model"
    TEXT = {"D": 1536, "F": 4608, "L": 16, "H": 16, "G": 8, "E": 128, "V": 59392}
    VISION = {"D": 1024, "F": 4096, "L": 24, "H": 16, "patch": 14, "frames": 2, "merge": 2}

    def config(self):
        text, vision = self.TEXT, self.VISION
        return {
            "architectures": ["GlmOcrForConditionalGeneration"],
            "model_type": "glm_ocr",
            "image_token_id": 59280,
            "text_config": {
                "model_type": "glm_ocr_text",
                "attention_bias": False,
                "vocab_size": text["V"],
                "hidden_size": text["D"],
                "intermediate_size": text["F"],
                "num_hidden_layers": text["L"],
                "num_attention_heads": text["H"],
                "num_key_value_heads": text["G"],
                "head_dim": text["E"],
                "max_position_embeddings": 131072,
                "rms_norm_eps": 1e-5,
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000, "partial_rotary_factor": 1.0, "mrope_section": [16, 24, 24]},
                "tie_word_embeddings": False,
            },
            "vision_config": {
                "model_type": "glm_ocr_vision",
                "attention_bias": True,
                "depth": vision["L"],
                "hidden_size": vision["D"],
                "intermediate_size": vision["F"],
                "num_heads": vision["H"],
                "out_hidden_size": text["D"],
                "patch_size": vision["patch"],
                "spatial_merge_size": vision["merge"],
                "temporal_patch_size": vision["frames"],
            },
        }

    def tensors(self):
        """Names, shapes, and the mean of each: 1 for norms' weights."""
        d, f, layers, h, g, e, vocabulary = self.TEXT.values()
        yield from linear("lm_head", vocabulary, d)
        model = "model.language_model."
        yield from linear(model + "embed_tokens", vocabulary, d)
        yield from norm(model + "norm", d)
        for i in range(layers):
            at = f"{model}layers.{i}."
            for part in ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"):
                yield from norm(at + part, d)
            for part, n, k in [("q_proj", h * e, d), ("k_proj", g * e, d), ("v_proj", g * e, d), ("o_proj", d, h * e)]:
                yield from linear(f"{at}self_attn.{part}", n, k)
            yield from linear(at + "mlp.gate_up_proj", 2 * f, d)
            yield from linear(at + "mlp.down_proj", d, f)
        width, f, layers, h, patch, frames, merge = self.VISION.values()
        tower = "model.visual."
        yield tower + "patch_embed.proj.weight", (width, 3, frames, patch, patch), False
        yield tower + "patch_embed.proj.bias", (width,), False
        for i in range(layers):
            at = f"{tower}blocks.{i}."
            for part, n in [("norm1", width), ("norm2", width), ("attn.q_norm", width // h), ("attn.k_norm", width // h)]:
                yield from norm(at + part, n)
            yield from linear(at + "attn.qkv", 3 * width, width, True)
            yield from linear(at + "attn.proj", width, width, True)
            for part, n, k in [("gate_proj", f, width), ("up_proj", f, width), ("down_proj", width, f)]:
                yield from linear(f"{at}mlp.{part}", n, k, True)
        yield from norm(tower + "post_layernorm", width)
        yield tower + "downsample.weight", (d, width, merge, merge), False
        yield tower + "downsample.bias", (d,), False
        yield from linear(tower + "merger.proj", d, d)
        yield from norm(tower + "merger.post_projection_norm", d, True)
        for part, n, k in [("gate_proj", 3 * d, d), ("up_proj", 3 * d, d), ("down_proj", d, 3 * d)]:
            yield from linear(f"{tower}merger.{part}", n, k)


SMOLVLM_256M = SmolVlm(
    {"D": 576, "L": 30, "H": 9, "G": 3, "F": 1536, "V": 49280},
    {"D": 768, "F": 3072, "L": 12, "H": 12, "patch": 16, "tile": 512, "scale": 4},
)
SMOLVLM_2B = SmolVlm(
    {"D": 2048, "L": 24, "H": 32, "G": 32, "F": 8192, "V": 49280},
    {"D": 1152, "F": 4304, "L": 27, "H": 16, "patch": 14, "tile": 384, "scale": 3},
)
class Gemma4:
    """E2B, whose text model's configuration is among those that `npm run bench` measures."""

    TOKENIZER = "tests/data/oracle/gemma4vl-hf/model"
    BENCH = Path(__file__).parent.parent / "src/bench/configs/gemma-4-e2b.json"
    VISION = {"D": 768, "F": 3072, "L": 16, "H": 12, "patch": 16, "positions": 10240}

    def __init__(self):
        self.text = json.loads(self.BENCH.read_text())["text_config"]

    def config(self):
        vision = self.VISION
        return {
            "architectures": ["Gemma4ForConditionalGeneration"],
            "model_type": "gemma4",
            "image_token_id": 302,
            "tie_word_embeddings": True,
            "text_config": {**self.text, "model_type": "gemma4_text"},
            "vision_config": {
                "model_type": "gemma4_vision",
                "hidden_size": vision["D"],
                "intermediate_size": vision["F"],
                "num_hidden_layers": vision["L"],
                "num_attention_heads": vision["H"],
                "num_key_value_heads": vision["H"],
                "head_dim": vision["D"] // vision["H"],
                "hidden_activation": "gelu_pytorch_tanh",
                "attention_bias": False,
                "patch_size": vision["patch"],
                "pooling_kernel_size": 3,
                "position_embedding_size": vision["positions"],
                "rms_norm_eps": 1e-6,
                "rope_parameters": {"rope_theta": 100.0, "rope_type": "axial"},
                "standardize": False,
                "use_clipped_linears": True,
            },
        }

    def tensors(self):
        """Names, shapes, and the mean of each: 1 for norms' weights."""
        text, model = self.text, "model.language_model."
        d, layers, of_layer = text["hidden_size"], text["num_hidden_layers"], text["hidden_size_per_layer_input"]
        h, g = text["num_attention_heads"], text["num_key_value_heads"]
        yield from linear(model + "embed_tokens", text["vocab_size"], d)
        yield from linear(model + "embed_tokens_per_layer", text["vocab_size_per_layer_input"], layers * of_layer)
        yield from linear(model + "per_layer_model_projection", layers * of_layer, d)
        yield from norm(model + "per_layer_projection_norm", of_layer)
        yield from norm(model + "norm", d)
        for i, kind in enumerate(text["layer_types"]):
            at = f"{model}layers.{i}."
            shares = i >= layers - text["num_kv_shared_layers"]
            e = text["head_dim" if kind == "sliding_attention" else "global_head_dim"]
            f = text["intermediate_size"] * (2 if shares and text["use_double_wide_mlp"] else 1)
            for part in ["input", "post_attention", "pre_feedforward", "post_feedforward"]:
                yield from norm(f"{at}{part}_layernorm", d)
            yield from norm(at + "post_per_layer_input_norm", d)
            yield at + "layer_scalar", (1,), True
            yield from linear(at + "per_layer_input_gate", of_layer, d)
            yield from linear(at + "per_layer_projection", d, of_layer)
            for part, n, k in [("gate_proj", f, d), ("up_proj", f, d), ("down_proj", d, f)]:
                yield from linear(f"{at}mlp.{part}", n, k)
            yield from linear(at + "self_attn.q_proj", h * e, d)
            yield from linear(at + "self_attn.o_proj", d, h * e)
            yield from norm(at + "self_attn.q_norm", e)
            if not shares:
                yield from linear(at + "self_attn.k_proj", g * e, d)
                yield from linear(at + "self_attn.v_proj", g * e, d)
                yield from norm(at + "self_attn.k_norm", e)
        vision, tower = self.VISION, "model.vision_tower."
        width, wide, e = vision["D"], vision["F"], vision["D"] // vision["H"]
        yield from linear("model.embed_vision.embedding_projection", d, width)
        yield tower + "patch_embedder.position_embedding_table", (2, vision["positions"], width), False
        yield from linear(tower + "patch_embedder.input_proj", width, 3 * vision["patch"] ** 2)
        for i in range(vision["L"]):
            at = f"{tower}encoder.layers.{i}."
            for part in ["input", "post_attention", "pre_feedforward", "post_feedforward"]:
                yield from norm(f"{at}{part}_layernorm", width)
            for part in ["q", "k"]:
                yield from norm(f"{at}self_attn.{part}_norm", e)
            products = [(f"self_attn.{part}_proj", width, width) for part in "qkvo"]
            products += [("mlp.gate_proj", wide, width), ("mlp.up_proj", wide, width), ("mlp.down_proj", width, wide)]
            for part, n, k in products:
                yield from linear(f"{at}{part}.linear", n, k)
                for limit, value in [("min", -8.0), ("max", 8.0)]:
                    for of in ["input", "output"]:
                        yield f"{at}{part}.{of}_{limit}", (), value


SHAPES = {
    "lfm2.5-vl-450m": Lfm2Vl(),
    "qwen3.5-0.8b": Qwen35(),
    "paddleocr-vl-0.9b": PaddleOcrVl(),
    "lightonocr-1b": LightOnOcr(),
    "glm-ocr-0.9b": GlmOcr(),
    "smolvlm-256m": SMOLVLM_256M,
    "smolvlm-2.2b": SMOLVLM_2B,
    "gemma-4-e2b": Gemma4(),
}

# Numbers that are drawn at most for a tensor; in larger ones they repeat.
DRAWN = 1 << 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--shape", choices=SHAPES, default="lfm2.5-vl-450m")
    parser.add_argument("--tokenizer", type=Path)
    given = parser.parse_args()
    shape = SHAPES[given.shape]
    given.out.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy((given.tokenizer or Path(shape.TOKENIZER)) / name, given.out / name)
    (given.out / "config.json").write_text(json.dumps(shape.config(), indent=2) + "\n")
    random = np.random.default_rng(1)
    header, at, listed = {}, 0, list(shape.tensors())
    for name, dimensions, _ in listed:
        size = 2 * int(np.prod(dimensions))
        header[name] = {"dtype": "BF16", "shape": list(dimensions), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(given.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, dimensions, mean in listed:
            inputs = dimensions[-1] if len(dimensions) == 2 else np.prod(dimensions[1:])
            # A single number is its mean.
            scale = 0.02 * len(dimensions) if len(dimensions) < 2 else 1.0 / np.sqrt(inputs)
            left = int(np.prod(dimensions))
            values = random.standard_normal(min(left, DRAWN), dtype=np.float32) * np.float32(scale) + np.float32(mean)
            halves = (values.view(np.uint32) >> 16).astype(np.uint16)
            while left > 0:
                file.write(halves[:left].tobytes())
                left -= len(halves)


if __name__ == "__main__":
    main()
