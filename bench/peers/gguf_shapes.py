"""Writes a GGUF file with random weights in the shape of a published model, for engines that read files.

    python3 bench/peers/gguf_shapes.py qwen3.5-2b OUT.gguf

The shape is a name in src/bench/configs or the path of a config.json. lfm2.5-350m is the text model of LFM2.5-VL-450M: `--mmproj MMPROJ.gguf` writes what reads
its pictures, in Q8_0. Names, shapes and metadata are those of llama.cpp's converter, types those of
its quantizer for q4_0: heads and tied embeddings are Q6_K; norms, small convolutions and routers F32. Predictors of a second token are left out.
Needs numpy only.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "scripts"))

from random_gguf import tokenizer, write  # noqa: E402

CONFIGS = HERE.parent.parent / "src" / "bench" / "configs"
Q4, F32 = ("q4_0", None), ("f32", None)


def ones(name: str, width: int) -> tuple:
    return (name, (width,), "f32", 1.0)


def matrix(name: str, *shape: int) -> tuple:
    return (name, shape, *Q4)


def ends(c: dict, norm: str) -> list[tuple]:
    """Embeddings, the last norm and the head. Tied embeddings get the head's type."""
    v, d = c["vocab_size"], c["hidden_size"]
    tied = c.get("tie_word_embeddings", c.get("tie_embedding", True))
    head = ("q6_k" if d % 256 == 0 else "q8_0", None)
    return [
        ("token_embd.weight", (v, d), *(head if tied else Q4)),
        ones(norm, d),
        *([] if tied else [("output.weight", (v, d), *head)]),
    ]


def attention(at: str, c: dict, gated: bool = False, normed: bool = False) -> list[tuple]:
    d, h, g = c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"]
    e = c.get("head_dim") or d // h
    return [
        matrix(f"{at}attn_q.weight", h * e * (2 if gated else 1), d),
        matrix(f"{at}attn_k.weight", g * e, d),
        matrix(f"{at}attn_v.weight", g * e, d),
        matrix(f"{at}attn_output.weight", d, h * e),
        *([ones(f"{at}attn_q_norm.weight", e), ones(f"{at}attn_k_norm.weight", e)] if normed else []),
    ]


def feed_forward(at: str, d: int, f: int, kind: str = "") -> list[tuple]:
    return [
        matrix(f"{at}ffn_gate{kind}.weight", f, d),
        matrix(f"{at}ffn_up{kind}.weight", f, d),
        matrix(f"{at}ffn_down{kind}.weight", d, f),
    ]


def experts(at: str, c: dict) -> list[tuple]:
    d, n, f = c["hidden_size"], c["num_experts"], c["moe_intermediate_size"]
    return [
        (f"{at}ffn_gate_inp.weight", (n, d), *F32),
        matrix(f"{at}ffn_gate_exps.weight", n, f, d),
        matrix(f"{at}ffn_up_exps.weight", n, f, d),
        matrix(f"{at}ffn_down_exps.weight", n, d, f),
        (f"{at}ffn_gate_inp_shexp.weight", (1, d), *F32),
        *feed_forward(at, d, c["shared_expert_intermediate_size"], "_shexp"),
    ]


def sizes(arch: str, c: dict, head_width: bool = True) -> dict:
    """What most families' metadata say. Where a layer's kv heads differ, the family says it again."""
    e = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    return {
        f"{arch}.block_count": c["num_hidden_layers"],
        f"{arch}.context_length": c["max_position_embeddings"],
        f"{arch}.embedding_length": c["hidden_size"],
        **({f"{arch}.feed_forward_length": c["intermediate_size"]} if "intermediate_size" in c else {}),
        f"{arch}.attention.head_count": c["num_attention_heads"],
        f"{arch}.attention.head_count_kv": c["num_key_value_heads"],
        **({f"{arch}.attention.key_length": e, f"{arch}.attention.value_length": e} if head_width else {}),
        f"{arch}.attention.layer_norm_rms_epsilon": c.get("rms_norm_eps") or c["norm_eps"],
    }


def llama(arch: str, c: dict) -> tuple[dict, list[tuple]]:
    """Llama, and SmolLM3, which leaves out every fourth layer's rotation by itself."""
    e, d = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"], c["hidden_size"]
    pairs = {
        **sizes(arch, c),
        f"{arch}.rope.freq_base": float(c["rope_theta"]),
        f"{arch}.rope.dimension_count": e,
        f"{arch}.vocab_size": c["vocab_size"],
    }
    tensors = ends(c, "output_norm.weight")
    if (c.get("rope_scaling") or {}).get("rope_type") == "llama3":
        tensors.append(("rope_freqs.weight", (e // 2,), "f32", llama3_divisors(e, c["rope_theta"], c["rope_scaling"])))
    for i in range(c["num_hidden_layers"]):
        at = f"blk.{i}."
        tensors += [ones(f"{at}attn_norm.weight", d), *attention(at, c), ones(f"{at}ffn_norm.weight", d)]
        tensors += feed_forward(at, d, c["intermediate_size"])
    return pairs, tensors


def llama3_divisors(e: int, theta: float, rope: dict) -> np.ndarray:
    """What each pair's frequency is divided by: nothing for the fast ones, the factor for the slow ones, between them in between."""
    turns = rope["original_max_position_embeddings"] / (2 * math.pi * theta ** (np.arange(0, e, 2) / e))
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / (kept + (1 - kept) / rope["factor"])


def qwen35(arch: str, c: dict) -> tuple[dict, list[tuple]]:
    rope, e, d = c["rope_parameters"], c["head_dim"], c["hidden_size"]
    groups, heads, state, kernel = (c[f"linear_{key}"] for key in ("num_key_heads", "num_value_heads", "key_head_dim", "conv_kernel_dim"))
    inner, interval = heads * c["linear_value_head_dim"], c["full_attention_interval"]
    pairs = {
        **sizes(arch, c),
        f"{arch}.rope.freq_base": float(rope["rope_theta"]),
        f"{arch}.rope.dimension_count": int(e * rope["partial_rotary_factor"]),
        f"{arch}.rope.dimension_sections": [*rope["mrope_section"], 0],
        f"{arch}.full_attention_interval": interval,
        f"{arch}.ssm.conv_kernel": kernel,
        f"{arch}.ssm.state_size": state,
        f"{arch}.ssm.group_count": groups,
        f"{arch}.ssm.time_step_rank": heads,
        f"{arch}.ssm.inner_size": inner,
    }
    if "num_experts" in c:
        pairs |= {
            f"{arch}.expert_count": c["num_experts"],
            f"{arch}.expert_used_count": c["num_experts_per_tok"],
            f"{arch}.expert_feed_forward_length": c["moe_intermediate_size"],
            f"{arch}.expert_shared_feed_forward_length": c["shared_expert_intermediate_size"],
        }
    tensors = ends(c, "output_norm.weight")
    mixed = 2 * groups * state + inner
    for i in range(c["num_hidden_layers"]):
        at = f"blk.{i}."
        tensors += [ones(f"{at}attn_norm.weight", d), ones(f"{at}post_attention_norm.weight", d)]
        if (i + 1) % interval == 0:
            tensors += attention(at, c, gated=True, normed=True)
        else:
            tensors += [
                matrix(f"{at}attn_qkv.weight", mixed, d),
                matrix(f"{at}attn_gate.weight", inner, d),
                (f"{at}ssm_conv1d.weight", (mixed, kernel), *F32),
                (f"{at}ssm_dt.bias", (heads,), "f32", 0.0),
                (f"{at}ssm_a", (heads,), "f32", -1.0),
                matrix(f"{at}ssm_beta.weight", heads, d),
                matrix(f"{at}ssm_alpha.weight", heads, d),
                ones(f"{at}ssm_norm.weight", c["linear_value_head_dim"]),
                matrix(f"{at}ssm_out.weight", d, inner),
            ]
        tensors += experts(at, c) if "num_experts" in c else feed_forward(at, d, c["intermediate_size"])
    return pairs, tensors


def lfm2(arch: str, c: dict) -> tuple[dict, list[tuple]]:
    d, f, kernel = c["hidden_size"], c["block_ff_dim"], c["conv_L_cache"]
    if c["block_auto_adjust_ff_dim"]:
        multiple = c["block_multiple_of"]
        f = -(-int(c["block_ffn_dim_multiplier"] * (2 * f // 3)) // multiple) * multiple
    attending = [i in c["full_attn_idxs"] for i in range(c["num_hidden_layers"])]
    pairs = {
        **sizes(arch, c, head_width=False),
        f"{arch}.attention.head_count_kv": [c["num_key_value_heads"] * attends for attends in attending],
        f"{arch}.feed_forward_length": f,
        f"{arch}.rope.freq_base": float(c["rope_theta"]),
        f"{arch}.vocab_size": c["vocab_size"],
        f"{arch}.shortconv.l_cache": kernel,
    }
    tensors = ends(c, "token_embd_norm.weight")
    for i, attends in enumerate(attending):
        at = f"blk.{i}."
        tensors += [ones(f"{at}attn_norm.weight", d), ones(f"{at}ffn_norm.weight", d)]
        if attends:
            tensors += attention(at, c, normed=True)
        else:
            tensors += [
                matrix(f"{at}shortconv.in_proj.weight", 3 * d, d),
                (f"{at}shortconv.conv.weight", (d, kernel), *F32),
                matrix(f"{at}shortconv.out_proj.weight", d, d),
            ]
        tensors += feed_forward(at, d, f)
    return pairs, tensors


def granitehybrid(arch: str, c: dict) -> tuple[dict, list[tuple]]:
    hybrid = "mamba" in c["layer_types"] and not c["num_local_experts"] and c["position_embedding_type"] == "nope"
    assert hybrid, "of Granite 4.0 only hybrids without experts are written"
    d, f = c["hidden_size"], c["shared_intermediate_size"]
    heads, groups, state, kernel = (c[f"mamba_{key}"] for key in ("n_heads", "n_groups", "d_state", "d_conv"))
    inner = c["mamba_expand"] * d
    mixed = inner + 2 * groups * state
    pairs = {
        **sizes(arch, c, head_width=False),
        f"{arch}.context_length": 2**20,
        f"{arch}.attention.head_count_kv": [c["num_key_value_heads"] * (kind == "attention") for kind in c["layer_types"]],
        f"{arch}.rope.dimension_count": d // c["num_attention_heads"],
        f"{arch}.rope.scaling.finetuned": False,
        f"{arch}.vocab_size": c["vocab_size"],
        f"{arch}.attention.scale": float(c["attention_multiplier"]),
        f"{arch}.embedding_scale": float(c["embedding_multiplier"]),
        f"{arch}.residual_scale": float(c["residual_multiplier"]),
        f"{arch}.logit_scale": float(c["logits_scaling"]),
        f"{arch}.expert_count": 0,
        f"{arch}.expert_used_count": 0,
        f"{arch}.expert_shared_feed_forward_length": f,
        f"{arch}.ssm.conv_kernel": kernel,
        f"{arch}.ssm.state_size": state,
        f"{arch}.ssm.group_count": groups,
        f"{arch}.ssm.inner_size": inner,
        f"{arch}.ssm.time_step_rank": heads,
    }
    tensors = ends(c, "output_norm.weight")
    for i, kind in enumerate(c["layer_types"]):
        at = f"blk.{i}."
        tensors += [ones(f"{at}attn_norm.weight", d), ones(f"{at}ffn_norm.weight", d)]
        if kind == "attention":
            tensors += attention(at, c)
        else:
            tensors += [
                matrix(f"{at}ssm_in.weight", inner + mixed + heads, d),
                (f"{at}ssm_conv1d.weight", (mixed, kernel), *F32),
                (f"{at}ssm_conv1d.bias", (mixed,), "f32", 0.0),
                (f"{at}ssm_dt.bias", (heads,), "f32", 0.0),
                (f"{at}ssm_a", (heads, 1), "f32", -1.0),
                (f"{at}ssm_d", (heads, 1), "f32", 1.0),
                (f"{at}ssm_norm.weight", (groups, inner // groups), "f32", 1.0),
                matrix(f"{at}ssm_out.weight", d, inner),
            ]
        tensors += feed_forward(at, d, f)
    return pairs, tensors


# The tokens around a picture's rows, and for them.
PICTURES = ("<|image_start|>", "<image>", "<|image_end|>")


def siglip(d: int) -> tuple[dict, list[tuple]]:
    """The vision tower of LFM2.5-VL-450M, SigLIP 2 of 86 million parameters, and its projector to rows of `d`."""
    width, f, layers, heads, patch, places, hidden = 768, 3072, 12, 12, 16, 256, 2048
    vision = "clip.vision"
    pairs = {
        "clip.has_vision_encoder": True,
        "clip.projector_type": "lfm2",
        "clip.use_gelu": True,
        f"{vision}.projection_dim": d,
        f"{vision}.image_size": 256,
        f"{vision}.patch_size": patch,
        f"{vision}.embedding_length": width,
        f"{vision}.feed_forward_length": f,
        f"{vision}.block_count": layers,
        f"{vision}.attention.head_count": heads,
        f"{vision}.attention.layer_norm_epsilon": 1e-6,
        f"{vision}.image_mean": [0.5] * 3,
        f"{vision}.image_std": [0.5] * 3,
        f"{vision}.projector.scale_factor": 2,
    }

    def product(name: str, n: int, k: int) -> list[tuple]:
        return [(f"{name}.weight", (n, k), "q8_0", None), (f"{name}.bias", (n,), "f32", 0.0)]

    def norm(name: str, n: int) -> list[tuple]:
        return [ones(f"{name}.weight", n), (f"{name}.bias", (n,), "f32", 0.0)]

    tensors = [
        ("v.patch_embd.weight", (width, 3, patch, patch), "f16", None),
        ("v.patch_embd.bias", (width,), "f32", 0.0),
        ("v.position_embd.weight", (places, width), "f32", None),
        *norm("v.post_ln", width),
        *norm("mm.input_norm", 4 * width),
        *product("mm.1", hidden, 4 * width),
        *product("mm.2", d, hidden),
    ]
    for i in range(layers):
        at = f"v.blk.{i}."
        tensors += [*norm(f"{at}ln1", width), *norm(f"{at}ln2", width)]
        for part in ("attn_q", "attn_k", "attn_v", "attn_out"):
            tensors += product(f"{at}{part}", width, width)
        tensors += [*product(f"{at}ffn_up", f, width), *product(f"{at}ffn_down", width, f)]
    return pairs, tensors


FAMILIES = {
    "LlamaForCausalLM": ("llama", llama),
    "SmolLM3ForCausalLM": ("smollm3", llama),
    "Qwen3_5ForConditionalGeneration": ("qwen35", qwen35),
    "Qwen3_5MoeForConditionalGeneration": ("qwen35moe", qwen35),
    "Lfm2ForCausalLM": ("lfm2", lfm2),
    "GraniteMoeHybridForCausalLM": ("granitehybrid", granitehybrid),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", help="a name in src/bench/configs or the path of a config.json")
    parser.add_argument("out", type=Path)
    parser.add_argument("--mmproj", type=Path, help="of lfm2.5-350m: where to write what reads pictures for it")
    options = parser.parse_args()
    path = Path(options.shape) if options.shape.endswith(".json") else CONFIGS / f"{options.shape}.json"
    config = json.loads(path.read_text())
    family = config["architectures"][0]
    if family not in FAMILIES:
        parser.error(f"{path} is of {family}; known are {', '.join(FAMILIES)}")
    arch, shape_of = FAMILIES[family]
    config = config.get("text_config", config)
    pairs, tensors = shape_of(arch, config)
    general = {"general.architecture": arch, "general.type": "model", "general.name": f"random {path.stem} q4_0"}
    # 2: mostly Q4_0, 7: mostly Q8_0.
    quantized = {"general.file_type": 2, "general.quantization_version": 2}
    control = PICTURES if options.mmproj else ()
    write(options.out, {**general, **pairs, **quantized, **tokenizer(config["vocab_size"], control)}, tensors)
    if options.mmproj:
        if path.stem != "lfm2.5-350m":
            parser.error(f"--mmproj is of lfm2.5-350m, not of {path.stem}")
        pairs, tensors = siglip(config["hidden_size"])
        general = {"general.architecture": "clip", "general.type": "mmproj", "general.name": "random LFM2.5-VL-450M q8_0"}
        write(options.mmproj, {**general, **pairs, **quantized, "general.file_type": 7}, tensors)


if __name__ == "__main__":
    main()
