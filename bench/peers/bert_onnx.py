"""An ONNX file of a BERT that embeds, in f32, for transformers.js: for folders that have none on Hugging Face.

    python3 bench/peers/bert_onnx.py FOLDER       # with config.json and model.safetensors; writes FOLDER/onnx/model.onnx

The graph has the operators that PyTorch's exporter writes for BertModel (LayerNormalization and Gelu whole). Needs onnx
and numpy."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def tensors(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    found = {}
    for name, about in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__" and about["dtype"] in ("F32", "F16"):
            first, end = (8 + size + at for at in about["data_offsets"])
            kind = {"F32": np.float32, "F16": np.float16}[about["dtype"]]
            found[name.removeprefix("bert.")] = np.frombuffer(data[first:end], kind).reshape(about["shape"]).astype(np.float32)
    return found


class Graph:
    def __init__(self, weights: dict[str, np.ndarray], eps: float) -> None:
        self.weights, self.eps = weights, eps
        self.nodes, self.constants = [], {}

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants.setdefault(name, numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def dense(self, x: str, name: str) -> str:
        weight = self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T)
        return self.node("Add", self.node("MatMul", x, weight), self.constant(f"{name}.bias", self.weights[f"{name}.bias"]))

    def norm(self, x: str, name: str) -> str:
        weight, bias = (self.constant(f"{name}.{part}", self.weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.node("LayerNormalization", x, weight, bias, axis=-1, epsilon=self.eps)

    def shape(self, name: str, *sizes: int) -> str:
        return self.constant(name, np.array(sizes, np.int64))


def main(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    width, heads, layers = config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"]
    graph = Graph(tensors(folder / "model.safetensors"), config["layer_norm_eps"])
    words, types, places = (
        graph.constant(f"{name}_embeddings", graph.weights[f"embeddings.{name}_embeddings.weight"])
        for name in ("word", "token_type", "position")
    )
    rows = graph.node("Gather", graph.node("Shape", "input_ids"), graph.constant("one", np.array(1, np.int64)))
    zero, one = graph.constant("zero", np.array(0, np.int64)), "one"
    positions = graph.node("Range", zero, rows, one)
    embedded = [graph.node("Gather", words, "input_ids"), graph.node("Gather", types, "token_type_ids"), graph.node("Gather", places, positions)]
    x = graph.norm(graph.node("Add", graph.node("Add", embedded[0], embedded[1]), embedded[2]), "embeddings.LayerNorm")
    mask = graph.node("Cast", graph.node("Unsqueeze", "attention_mask", graph.shape("axes", 1, 2)), to=TensorProto.FLOAT)
    hidden = graph.node("Sub", graph.constant("unit", np.array(1, np.float32)), mask)
    mask = graph.node("Mul", hidden, graph.constant("least", np.array(np.finfo(np.float32).min, np.float32)))
    scale = graph.constant("scale", np.array((width / heads) ** -0.5, np.float32))
    apart, together = graph.shape("apart", 0, 0, heads, width // heads), graph.shape("together", 0, 0, width)
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        parts = [graph.node("Reshape", graph.dense(x, f"{at}.attention.self.{part}"), apart) for part in ("query", "key", "value")]
        query, key, value = (graph.node("Transpose", part, perm=perm) for part, perm in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])))
        scores = graph.node("Add", graph.node("Mul", graph.node("MatMul", query, key), scale), mask)
        mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), value)
        mixed = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), together)
        x = graph.norm(graph.node("Add", graph.dense(mixed, f"{at}.attention.output.dense"), x), f"{at}.attention.output.LayerNorm")
        up = graph.node("Gelu", graph.dense(x, f"{at}.intermediate.dense"))
        x = graph.norm(graph.node("Add", graph.dense(up, f"{at}.output.dense"), x), f"{at}.output.LayerNorm")
    graph.nodes.append(helper.make_node("Identity", [x], ["last_hidden_state"]))
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in ("input_ids", "attention_mask", "token_type_ids")]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "tokens", width])
    whole = helper.make_graph(graph.nodes, "bert", inputs, [output], list(graph.constants.values()))
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.checker.check_model(model)
    (folder / "onnx").mkdir(exist_ok=True)
    onnx.save(model, folder / "onnx" / "model.onnx")


main(Path(sys.argv[1]))
