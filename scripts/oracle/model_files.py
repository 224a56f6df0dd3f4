"""Writes one model as a GGUF file or as a Hugging Face folder, and reads it back for the reference.

The reference always runs on the weights that were read back, so that both sides have the rounding of the file's types.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from gguf import MODEL_ARCH_NAMES, GGUFReader, GGUFWriter, get_tensor_name_map
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from . import packed_folder, weight_types
from .shapes import Shape
from .tokenizer import MadeTokenizer


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the bytes of a model. `shards`: the weights lie in several files."""

    family: ModuleType
    shape: Shape
    weight_type: str
    file_format: str
    seed: int
    shards: bool = False
    # For Hugging Face folders only: config.json and tokenizer_config.json in transformers 4's format, which most
    # folders have.
    old_config: bool = False
    # For GGUF files only: alignment of tensor data in bytes, and the format's version (2 and 3 differ in the number).
    alignment: int = 32
    version: int = 3


def random_model(recipe: Recipe, tokenizer: MadeTokenizer) -> PreTrainedModel:
    """The model with its random f32 weights. NumPy's generator, because its streams do not change between versions."""
    model = recipe.family.model(recipe.family.config(recipe.shape, tokenizer.ids))
    generator = np.random.default_rng([recipe.seed, recipe.shape.d, recipe.shape.f, recipe.shape.e])
    with torch.no_grad():
        for name, parameter in weights(model):
            mean, deviation = recipe.family.spread(name, recipe.shape)
            values = mean + deviation * generator.standard_normal(tuple(parameter.shape), dtype=np.float32)
            parameter.copy_(torch.from_numpy(np.asarray(values, dtype=np.float32)))
    if model.can_generate():
        model.generation_config.bos_token_id = tokenizer.ids["bos"]
        model.generation_config.eos_token_id = [tokenizer.ids["eos"], tokenizer.ids["eot"]]
    return model


def write(recipe: Recipe, tokenizer: MadeTokenizer, folder: Path) -> tuple[Path, PreTrainedModel]:
    """Writes the model below `folder`; returns the path for the engine's --model, and the reference model, in f32."""
    folder.mkdir(parents=True, exist_ok=True)
    model = random_model(recipe, tokenizer)
    if recipe.file_format == "gguf":
        write_gguf(recipe, model, tokenizer, folder / "model.gguf")
        # The writer names the parts of a split file.
        paths = sorted(folder.glob("model*.gguf"))
        return paths[0], read_gguf(recipe, model, paths)
    path = folder / "model"
    write_folder(recipe, model, tokenizer, path)
    if recipe.weight_type in packed_folder.TYPES:
        reference = type(model)(model.config).float().eval()
        reference.load_state_dict(packed_folder.pack(path, recipe.weight_type))
        return path, reference
    reference = type(model).from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    return path, reference


def left_out(recipe: Recipe, name: str) -> bool:
    """Whether a GGUF file of the language model lacks the parameter."""
    return getattr(recipe.family, "left_out", lambda name: False)(name)


def weights(model: PreTrainedModel) -> Iterator[tuple[str, torch.Tensor]]:
    """A file's tensors by name: the parameters, then buffers that are not derived tables, such as biases of routers."""
    yield from model.named_parameters()
    kept = model.state_dict()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name in kept)


def gguf_names(recipe: Recipe, model: PreTrainedModel) -> dict[str, list[str]]:
    """transformers' parameter names -> llama.cpp's, several where a file holds a parameter in parts."""
    table = get_tensor_name_map(recipe.family.ARCH, recipe.shape.layers)
    parts = getattr(recipe.family, "gguf_parts", lambda name: None)
    names = {}
    for name, _ in weights(model):
        if left_out(recipe, name):
            continue
        # The language model's part of a multimodal model.
        known = table.get_name(name.replace("language_model.", ""), try_suffixes=(".weight", ".bias"))
        names[name] = parts(name) or ([known] if known else [])
    missing = [name for name, mapped in names.items() if not mapped]
    assert not missing, f"the gguf package has no names for {missing}"
    return names


def write_gguf(recipe: Recipe, model: PreTrainedModel, tokenizer: MadeTokenizer, path: Path) -> None:
    writer = GGUFWriter(path, MODEL_ARCH_NAMES[recipe.family.ARCH], split_max_tensors=8 if recipe.shards else 0)
    if recipe.alignment != 32:
        writer.add_custom_alignment(recipe.alignment)
    writer.add_type("model")
    writer.add_name(f"Millrace oracle {recipe.family.NAME} {recipe.shape.name}")
    recipe.family.metadata(writer, model.config)
    writer.add_file_type(weight_types.TYPES[recipe.weight_type][1])
    writer.add_quantization_version(2)
    tokenizer.write_gguf_metadata(writer)
    for name, values in recipe.family.extra_tensors(model.config).items():
        kind = weight_types.type_of(recipe.weight_type, name, values.shape)
        writer.add_tensor(name, weight_types.pack(values, kind), raw_dtype=kind)
    names = gguf_names(recipe, model)
    for name, parameter in weights(model):
        if left_out(recipe, name):
            continue
        values = recipe.family.to_gguf(name, parameter.detach().numpy(), model.config)
        rows = getattr(recipe.family, "part_rows", lambda name, config: None)(name, model.config)
        places = np.cumsum(rows)[:-1] if rows else len(names[name])
        parts = np.split(values, places, axis=values.ndim - 2) if len(names[name]) > 1 else [values]
        for part, part_values in zip(names[name], parts, strict=True):
            kind = weight_types.type_of(recipe.weight_type, part, part_values.shape)
            writer.add_tensor(part, weight_types.pack(part_values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for part in path.parent.glob("model*.gguf"):
        with part.open("r+b") as file:
            file.seek(len(b"GGUF"))
            file.write(recipe.version.to_bytes(4, "little"))


def read_gguf(recipe: Recipe, model: PreTrainedModel, paths: list[Path]) -> PreTrainedModel:
    """A model of the same configuration with the weights that the file's blocks decode to."""
    tensors = {tensor.name: tensor for path in paths for tensor in GGUFReader(path).tensors}
    names = gguf_names(recipe, model)
    reference = recipe.family.model(model.config)
    with torch.no_grad():
        for name, parameter in weights(reference):
            if left_out(recipe, name):
                continue
            parts = [weight_types.unpack(tensors[part].data, tensors[part].tensor_type) for part in names[name]]
            values = np.concatenate(parts, axis=parts[0].ndim - 2) if len(parts) > 1 else parts[0]
            parameter.copy_(torch.from_numpy(recipe.family.from_gguf(name, values, model.config).copy()))
    return reference


def write_folder(recipe: Recipe, model: PreTrainedModel, tokenizer: MadeTokenizer, folder: Path) -> None:
    kinds = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, **packed_folder.TYPES}
    single = getattr(recipe.family, "single", lambda name: False)
    for name, tensor in weights(model):
        tensor.data = tensor.data.to(torch.float32 if single(name) else kinds[recipe.weight_type])
    size = sum(tensor.numel() * tensor.element_size() for tensor in model.parameters())
    model.save_pretrained(folder, max_shard_size=size * 2 // 3 if recipe.shards else size * 2)
    as_published(recipe, model, folder, kinds[recipe.weight_type])
    tokenizer.write_folder(folder, template_in_config=recipe.old_config)
    if recipe.old_config:
        age_config(folder / "config.json", recipe.family)


def as_published(recipe: Recipe, model: PreTrainedModel, folder: Path, kind: torch.dtype) -> None:
    """Replaces the tensors of a folder of one file by those of published folders, where transformers writes others."""
    unread = getattr(recipe.family, "unread_tensors", lambda config: {})(model.config)
    arranged = getattr(recipe.family, "arranged", None)
    if unread or arranged:
        path = folder / "model.safetensors"
        tensors = {**load_file(path), **{name: torch.from_numpy(values).to(kind) for name, values in unread.items()}}
        save_file(arranged(tensors) if arranged else tensors, path, metadata={"format": "pt"})


def age_config(path: Path, family: ModuleType) -> None:
    """Rewrites config.json with the keys of transformers 4: rope_theta, rope_scaling, torch_dtype, and the family's first keys."""
    config = json.loads(path.read_text())
    # Models with rotations.
    if rope := config.pop("rope_parameters", None):
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    getattr(family, "age", lambda config: None)(config)
    path.write_text(json.dumps(dict(sorted(config.items())), indent=2) + "\n")
