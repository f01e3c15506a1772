"""Which tensors of a model are parameters, and which of them are trained."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

import onnx_ir as ir

from onnxgrad.engine.errors import OptionError
from onnxgrad.engine.ir.builder import is_float

# Inputs that hold weights. Other operators take weights by elementwise arithmetic, see _ELEMENTWISE.
_WEIGHTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("Conv", "ConvTranspose", "InstanceNormalization", "LayerNormalization"), (1, 2)),
    **dict.fromkeys(("BatchNormalization", "GroupNormalization", "RMSNormalization"), (1, 2)),
    **dict.fromkeys(("Gemm", "Einsum"), (0, 1, 2)),
    "MatMul": (0, 1),
    "Gather": (0,),
    "PRelu": (1,),
    "RNN": (1, 2, 3),
    "GRU": (1, 2, 3),
    "LSTM": (1, 2, 3, 7),
}
_ELEMENTWISE = ("Add", "Sub", "Mul", "Div")
_PASSES_ON = (
    "Identity",
    "Transpose",
    "Reshape",
    "Unsqueeze",
    "Squeeze",
    "Flatten",
    "Cast",
    "Concat",
    "Expand",
    "Slice",
)


def lift_weights(graph: ir.Graph) -> None:
    """Turn nodes of the main graph that hold parameters into initializers of the same name. In place.

    These are Constant nodes, and Identity nodes of an initializer whose elements are all equal: exporters write one
    tensor where several parameters hold the same ones or zeros at first, which must not tie them.
    """
    for node in list(graph):
        if node.op_type == "Identity" and not node.domain:
            _untie(graph, node)
    for node in list(graph):
        tensor = node.attributes.get("value")
        if node.op_type != "Constant" or node.domain or tensor is None or tensor.is_ref():
            continue
        value = node.outputs[0]
        data = tensor.as_tensor()
        if value.is_graph_output() or not data.dtype.is_floating_point() or not _holds_weights(value, data.size):
            continue
        _replace_by_initializer(graph, node, data)


def _untie(graph: ir.Graph, node: ir.Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    data = source.const_value if source is not None and source.is_initializer() else None
    if data is None or output.is_graph_output() or not data.dtype.is_floating_point() or data.size < 1:
        return
    array = data.numpy()
    if (array == array.flat[0]).all():
        _replace_by_initializer(graph, node, data)


def _replace_by_initializer(graph: ir.Graph, node: ir.Node, data: ir.TensorProtocol) -> None:
    value = node.outputs[0]
    weight = ir.Value(
        name=value.name, type=ir.TensorType(data.dtype), shape=ir.Shape(data.numpy().shape), const_value=data
    )
    value.name = None
    ir.convenience.replace_all_uses_with(value, weight)
    graph.remove(node, safe=True)
    graph.register_initializer(weight)


def parameters(graph: ir.Graph) -> list[ir.Value]:
    """The initializers of the main graph that are weights: float tensors in the place of one, in order."""
    return [
        value
        for value in graph.initializers.values()
        if is_float(value) and value.const_value is not None and _holds_weights(value, value.const_value.size)
    ]


def select_trainable(graph: ir.Graph, patterns: str | Sequence[str]) -> list[ir.Value]:
    """The parameters whose names match `patterns`.

    A pattern is a name with wildcards as in a shell; one with "!" in front takes names out again; the last match
    counts. A name without wildcards may also be an initializer that is not taken for a parameter.

    Raises: OptionError for a pattern that matches nothing, or if nothing is left to train.
    """
    known = {value.name or "": value for value in parameters(graph)}
    if not any(is_float(value) for value in graph.initializers.values()):
        raise OptionError("the model has no parameter to train", where=f"graph {graph.name!r}")
    chosen: dict[str, ir.Value] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        wanted = pattern.removeprefix("!")
        found = [name for name in known if fnmatchcase(name, wanted)]
        exact = graph.initializers.get(wanted)
        if not found and exact is not None and is_float(exact):
            known[wanted], found = exact, [wanted]
        if not found:
            close = get_close_matches(wanted, known, n=3)
            raise OptionError(
                f"the pattern {pattern!r} matches no parameter",
                where=f"{len(known)} parameters: {', '.join(list(known)[:5])}{', ...' if len(known) > 5 else ''}",
                fix=f"did you mean {' or '.join(map(repr, close))}?"
                if close
                else "see `onnxgrad inspect --parameters`",
            )
        for name in found:
            if pattern.startswith("!"):
                chosen.pop(name, None)
            else:
                chosen[name] = known[name]
    if not chosen:
        raise OptionError(f"nothing is left to train by {patterns!r}", fix='trainable="*" trains all parameters')
    return [value for name, value in known.items() if name in chosen]


def _holds_weights(value: ir.Value, size: int) -> bool:
    for node, index in value.uses():
        if node.domain not in ("", "ai.onnx"):
            continue
        if index in _WEIGHTS.get(node.op_type, ()) or (node.op_type in _ELEMENTWISE and size > 1):
            return True
        if node.op_type in _PASSES_ON and index == 0 and _holds_weights(node.outputs[0], size):
            return True
    return False
