"""Other inputs and outputs for a model: batch sizes, constants, more outputs or fewer, other names."""

import difflib
from collections.abc import Container, Iterable, Mapping

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.engine.ir.builder import describe_value
from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes
from onnxgrad.engine.ir.input_shapes import with_input_shapes
from onnxgrad.engine.ir.names import graphs_in, values_in
from onnxgrad.engine.passes.edit import remove_dead
from onnxgrad.engine.passes.queries import int_values
from onnxgrad.engine.passes.scope import Scope

Array = npt.NDArray[np.generic]

_BATCH = "onnxgrad_batch"


def with_batch_size(model: ir.Model, size: int | str, inputs: Iterable[str] | None = None) -> ir.Model:
    """A copy whose inputs have another first dimension: a number, or a name that leaves it open.

    inputs: which; all that have dimensions if None. Where the old batch size was a number, a Reshape of a batch to a
    constant shape that starts with it copies the dimension of its operand instead.

    Raises: OptionError for an unknown input, or one without dimensions; ShapeError as `with_input_shapes`.
    """
    own = {value.name or "": value for value in model.graph.inputs if not value.is_initializer()}
    names = [name for name, value in own.items() if value.shape] if inputs is None else list(inputs)
    shapes: dict[str, list[int | str | None]] = {}
    old: set[int] = set()
    for name in names:
        value = own.get(name)
        if value is None or not value.shape:
            raise OptionError(f"The model has no input {name!r} with a batch.", fix=_suggest(name, own))
        first = value.shape[0]
        old.update([first] if isinstance(first, int) else [])
        shapes[name] = [_BATCH, *[None] * (len(value.shape) - 1)]
    opened = with_input_shapes(model, shapes)
    while _open_reshapes(opened, old):
        _forget_shapes(opened)
        infer_shapes(opened)
    return with_input_shapes(opened, {name: [size, *dims[1:]] for name, dims in shapes.items()})


def _open_reshapes(model: ir.Model, old: Container[int]) -> int:
    """Let each Reshape of a batch copy its size instead of the old one; returns how many changed."""
    count = 0
    scope = Scope(model)
    for graph in graphs_in(model.graph):
        for node in list(graph):
            if node.op_type != "Reshape" or node.domain != "" or _allows_zero(node):
                continue
            x, sizes = node.inputs[0], int_values(node.inputs[1])
            is_batch = x is not None and x.shape and str(x.shape[0]) == _BATCH
            if is_batch and sizes and sizes[0] in old and sizes[0] > 0:
                op = scope.builder(graph, before=node)
                node.replace_input_with(1, op.constant([0, *sizes[1:]]))
                count += 1
    return count


def _allows_zero(node: ir.Node) -> bool:
    return "allowzero" in node.attributes and bool(node.attributes["allowzero"].value)


def _forget_shapes(model: ir.Model) -> None:
    for node in model.graph.all_nodes():
        for output in node.outputs:
            output.shape = None


def with_constants(model: ir.Model, constants: Mapping[str, Array | int | float | bool]) -> ir.Model:
    """A copy whose inputs of these names are constants; the rest of the inputs stay in their order.

    Raises: OptionError for an unknown input; InputError for another shape or dtype.
    """
    copy = clone(model)
    inputs = {value.name or "": value for value in copy.graph.inputs}
    for name, content in constants.items():
        value = inputs.get(name)
        if value is None:
            raise OptionError(f"The model has no input {name!r}.", fix=_suggest(name, inputs))
        array = _content_of(value, content)
        copy.graph.inputs.remove(value)
        value.const_value = ir.Tensor(array, dtype=value.dtype, name=name)
        value.shape = ir.Shape(array.shape)
        copy.graph.register_initializer(value)
    _forget_shapes(copy)
    infer_shapes(copy)
    return copy


def _content_of(value: ir.Value, content: Array | int | float | bool) -> Array:
    """The content for an input: Python numbers take its dtype."""
    if value.dtype is None or value.dtype.is_string():
        raise InputError(
            "This input cannot be a constant.", where=describe_value(value), why="it is no tensor of numbers"
        )
    dtype = value.dtype.numpy()
    array = np.asarray(content) if isinstance(content, (np.ndarray, np.generic)) else np.asarray(content).astype(dtype)
    if array.dtype != dtype:
        raise InputError(f"The constant is {array.dtype}.", where=describe_value(value), fix=f"give it as {dtype}")
    declared = list(value.shape) if value.shape is not None else [None] * array.ndim
    fits = len(declared) == array.ndim and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(declared, array.shape, strict=True)
    )
    if not fits:
        raise InputError(f"The constant has the shape {list(array.shape)}.", where=describe_value(value))
    return np.array(array)


def with_outputs(model: ir.Model, *, add: Iterable[str] = (), remove: Iterable[str] = ()) -> ir.Model:
    """A copy with more outputs (values of the main graph, by name), or without some; the others keep their order.

    What only removed outputs needed goes, initializers too; inputs stay.

    Raises: OptionError for unknown names, and where no output would be left.
    """
    copy = clone(model)
    infer_shapes(copy)
    _add_outputs(copy, list(add))
    outputs = {value.name or "": value for value in copy.graph.outputs}
    for name in remove:
        if name not in outputs:
            raise OptionError(f"The model has no output {name!r}.", fix=_suggest(name, outputs))
        copy.graph.outputs.remove(outputs[name])
    if not copy.graph.outputs:
        raise OptionError("No output would be left.", fix="keep one")
    for graph in reversed(list(graphs_in(copy.graph))):
        remove_dead(list(graph))
    for graph in graphs_in(copy.graph):
        for name, value in list(graph.initializers.items()):
            if not (value.uses() or value.is_graph_input() or value.is_graph_output()):
                del graph.initializers[name]
    return copy


def _add_outputs(model: ir.Model, names: list[str]) -> None:
    graph = model.graph
    made = {value.name or "": value for node in graph for value in node.outputs if value.name}
    scope = Scope(model)
    for name in names:
        value = made.get(name)
        if value is None:
            raise OptionError(f"No node of the main graph gives a value {name!r}.", fix=_suggest(name, made))
        if value.is_graph_output():
            raise OptionError(f"{name!r} is an output already.")
        if value.type is None:
            value.type = scope.builder(graph).Identity(value).type
        graph.outputs.append(value)


def with_names(model: ir.Model, names: Mapping[str, str]) -> ir.Model:
    """A copy whose inputs and outputs have other names: old -> new.

    Raises: OptionError for what is no input or output, and for names that are in use.
    """
    copy = clone(model)
    known = {value.name or "": value for value in (*copy.graph.inputs, *copy.graph.outputs)}
    for old in names:
        if old not in known:
            raise OptionError(f"The model has no input or output {old!r}.", fix=_suggest(old, known))
    used = {value.name for value in values_in(copy.graph)} - set(names)
    for new in names.values():
        if not new or new in used:
            raise OptionError(f"The name {new!r} is in use." if new else "A name must not be empty.")
        used.add(new)
    values = [(known[old], new) for old, new in names.items()]
    overridable = [(value, value.const_value) for value, _ in values if value.is_initializer()]
    for value, _ in overridable:
        copy.graph.initializers.pop(value.name or "")
    for value, new in values:
        value.name = new
    for value, tensor in overridable:
        value.const_value = tensor
        copy.graph.register_initializer(value)
    return copy


def _suggest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"one of {', '.join(names[:20])}"
