"""Heads: the last layer of a model replaced, or a new one put on an output."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from onnxgrad.engine.errors import ModelError, OptionError
from onnxgrad.engine.ir.builder import Builder, describe, describe_value
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.names import Names
from onnxgrad.importers import ModelSource, load

# What may stand between the matrix product of a head and the output of the model.
_HEAD = "onnxgrad.head"
_log = logging.getLogger("onnxgrad")
_AFTER = (
    "Identity",
    "Softmax",
    "LogSoftmax",
    "Sigmoid",
    "Add",
    "Reshape",
    "Squeeze",
    "Flatten",
    "Cast",
    "Dropout",
    "Mul",
)


@dataclass(frozen=True)
class Head:
    """A head that was put on a model. output: the one it feeds; parameters: the new weights; said: what was done."""

    output: str
    parameters: tuple[str, ...]
    said: str

    def __str__(self) -> str:
        return self.said


def head_of(model: ir.Model) -> Head | None:
    """What `replace_head` or `add_head` did to `model`; None if it is not one of theirs."""
    head: Head | None = model.meta.get(_HEAD)
    return head


def replace_head(model: ModelSource, classes: int, *, output: str | None = None, seed: int = 0) -> ir.Model:
    """Replace the Gemm or MatMul that makes the logits of an output by one for `classes` classes.

    model: path, bytes, ModelProto or ir.Model; it is not changed. output: which output; the first by default. The new
    weights are drawn as torch draws those of a Linear layer: uniform in +-1/sqrt(features); what follows the product
    (softmax, ...) stays. Returns the new model; `head_of` tells what was replaced, and so does the log.

    Raises: ModelError if no such product is found (then `add_head` may be what is wanted).
    """
    _check_classes(classes)
    copy = clone(load(model))
    infer_shapes(copy)
    graph = copy.graph
    target = _output(graph, output)
    name = target.name or ""
    node, bias = _find_product(target)
    weight = node.inputs[1]
    features, old = _weight_size(node)
    label = node.name or "head"
    names = Names(graph)
    rng = np.random.default_rng(seed)
    assert weight is not None and weight.dtype is not None
    new = [_weight(graph, names.fresh(f"{label}.new.weight"), (features, classes), features, weight.dtype, rng)]
    new.append(_weight(graph, names.fresh(f"{label}.new.bias"), (classes,), features, weight.dtype, rng))
    last = bias or node
    op = Builder(graph, before=last)
    op.scope = label
    logits = _affine(op, node.inputs[0], new[0], new[1])
    said = f"{describe(node)} made {old} logits for output {name!r}; it now makes {classes}"
    ir.convenience.replace_all_uses_with(last.outputs[0], logits, replace_graph_outputs=True)
    _take_name(graph, last, logits)
    for removed in dict.fromkeys((last, node)):
        graph.remove(removed, safe=True)
    RemoveUnusedNodesPass()(copy)
    _forget_shapes_after(logits, target)
    infer_shapes(copy)
    return _noted(copy, Head(name, tuple(value.name or "" for value in new), said))


def add_head(model: ModelSource, classes: int, *, output: str | None = None, seed: int = 0) -> ir.Model:
    """Put a linear layer on an output of features [N, D]; its logits [N, classes] become the only output, "logits".

    Other arguments and errors are as in `replace_head`.
    """
    _check_classes(classes)
    copy = clone(load(model))
    graph = copy.graph
    features = _output(graph, output)
    features.shape = None  # what the file declares may be less than what is known
    infer_shapes(copy)
    size = _width(features)
    if size is None or features.dtype is None:
        raise ModelError(
            "a head needs features of shape [N, D] with a known D",
            where=describe_value(features),
            fix=f"choose another output: {', '.join(describe_value(v) for v in graph.outputs)}",
        )
    names, rng = Names(graph), np.random.default_rng(seed)
    new = [_weight(graph, names.fresh("head.weight"), (size, classes), size, features.dtype, rng)]
    new.append(_weight(graph, names.fresh("head.bias"), (classes,), size, features.dtype, rng))
    op = Builder(graph)
    op.scope = "head"
    logits = _affine(op, features, new[0], new[1])
    logits.name = names.fresh("logits")
    graph.outputs[:] = [logits]
    said = f"a linear layer {size} -> {classes} on the output {features.name!r}; other outputs are gone"
    RemoveUnusedNodesPass()(copy)
    return _noted(copy, Head(logits.name, tuple(value.name or "" for value in new), said))


def _width(features: ir.Value) -> int | None:
    """D of features [N, D]; None if they are no such thing."""
    dims = list(features.shape) if features.shape is not None else []
    return dims[1] if len(dims) == 2 and isinstance(dims[1], int) else None


def _noted(model: ir.Model, head: Head) -> ir.Model:
    model.meta[_HEAD] = head
    _log.info("%s", head)
    return model


def _affine(op: Builder, x: ir.Value | None, weight: ir.Value, bias: ir.Value) -> ir.Value:
    assert x is not None
    if x.shape is not None and len(x.shape) == 2:
        return op.Gemm(x, weight, bias)
    return op.Add(op.MatMul(x, weight), bias)


def _take_name(graph: ir.Graph, last: ir.Node, logits: ir.Value) -> None:
    old = last.outputs[0]
    if logits.is_graph_output():
        logits.name, old.name = old.name, None


def _weight(
    graph: ir.Graph, name: str, shape: tuple[int, ...], features: int, dtype: ir.DataType, rng: np.random.Generator
) -> ir.Value:
    bound = 1 / math.sqrt(features)
    data = rng.uniform(-bound, bound, shape).astype(dtype.numpy())
    value = ir.Value(
        name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape), const_value=ir.tensor(data, name=name)
    )
    graph.register_initializer(value)
    return value


def _output(graph: ir.Graph, name: str | None) -> ir.Value:
    found = [value for value in graph.outputs if name is None or value.name == name]
    if not found:
        raise OptionError(f"the model has no output {name!r}", fix=", ".join(str(v.name) for v in graph.outputs))
    return found[0]


def _find_product(output: ir.Value) -> tuple[ir.Node, ir.Node | None]:
    """The Gemm or MatMul behind `output` whose second input is a weight, and the Add of its bias if there is one."""
    value, bias = output, None
    while (node := value.producer()) is not None:
        if node.op_type in ("Gemm", "MatMul") and node.inputs[1] is not None and _is_weight(node.inputs[1]):
            return node, bias if bias is not None and node.outputs[0] in bias.inputs else None
        if node.op_type not in _AFTER:
            break
        operands = node.inputs if node.op_type in ("Add", "Mul") else node.inputs[:1]
        computed = [v for v in operands if v is not None and not _is_weight(v)]
        if len(computed) != 1:
            break
        bias = node if node.op_type == "Add" else None
        value = computed[0]
    raise ModelError(
        f"no last layer is found behind the output {output.name!r}",
        where=describe(node) if node is not None else describe_value(output),
        why="a head is a Gemm or MatMul with a weight, followed by the like of Add, Softmax or Reshape",
        fix="og.models.add_head puts a new layer on an output of features [N, D]",
    )


def _is_weight(value: ir.Value) -> bool:
    producer = value.producer()
    if value.is_initializer() or (producer is not None and producer.op_type == "Constant"):
        return True
    source = (
        producer.inputs[0] if producer is not None and producer.op_type in ("Transpose", "Identity", "Cast") else None
    )
    return source is not None and _is_weight(source)


def _weight_size(node: ir.Node) -> tuple[int, int]:
    """(features, classes) of the weight of a Gemm or MatMul."""
    weight = node.inputs[1]
    assert weight is not None
    if weight.shape is None or len(weight.shape) != 2 or not weight.shape.is_static():
        raise ModelError("the weight of the last layer is no matrix of known size", where=describe(node))
    rows, columns = (int(str(dim)) for dim in weight.shape)
    if node.op_type == "Gemm" and node.attributes.get_int("transB", False):
        rows, columns = columns, rows
    if node.op_type == "Gemm" and node.attributes.get_int("transA", False):
        raise ModelError("the last layer is a Gemm with transA, which has no batch axis in front", where=describe(node))
    return rows, columns


def _forget_shapes_after(value: ir.Value, target: ir.Value) -> None:
    """Shapes that follow the number of classes are inferred anew."""
    for node, _ in value.uses():
        for output in node.outputs:
            output.shape = None
            _forget_shapes_after(output, target)


def _check_classes(classes: int) -> None:
    if classes < 1:
        raise OptionError(f"a head needs at least one class, not {classes}")
