"""Shapes that are computed at run time become constants where they are known, or can be written with 0 and -1."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.passes.edit import remove_dead, replace_value
from onnxgrad.engine.passes.elements import OPERATORS, Elements, ShapeValues
from onnxgrad.engine.passes.queries import Dim, dims, is_constant, quantizes_at_run_time, same_dim
from onnxgrad.engine.passes.scope import Scope


def simplify_shapes(scope: Scope) -> int:
    """Shape -> Gather -> Concat -> Reshape chains: known values become constants, the rest 0 and -1 where provable."""
    count, exact = 0, quantizes_at_run_time(scope.graphs())
    for graph in scope.graphs():
        if not scope.opset(graph):
            continue
        known = ShapeValues()
        for node in list(graph):
            if node.graph is not graph or node.domain != "":
                continue
            if node.op_type in OPERATORS and node.op_type not in ("Identity", "Constant"):
                count += _replace_known(scope, known, node, exact)
            if node.graph is graph and node.op_type in ("Reshape", "Expand"):
                count += _write_target(scope, known, node)
    return count


def _becomes_float(value: ir.Value) -> bool:
    """Whether a number that is computed from shapes, such as 1 / sqrt(size), is made from `value`."""
    for node, _ in value.uses():
        if node.op_type == "Cast" and node.attributes.get_int("to", 0) not in _WHOLE:
            return True
        if node.op_type in OPERATORS and any(map(_becomes_float, node.outputs)):
            return True
    return False


_WHOLE = (int(ir.DataType.INT64), int(ir.DataType.INT32), int(ir.DataType.BOOL))


def _replace_known(scope: Scope, known: ShapeValues, node: ir.Node, exact: bool) -> int:
    """Replace the outputs of a node whose elements are all numbers by constants.

    exact: numbers that go on as floats are left alone. As constants, onnxruntime takes them into matrix products, which
    then round in another order; behind a quantization at run time one last bit can move a value by a whole step.
    """
    count = 0
    for output in node.outputs:
        if not output.uses() and not output.is_graph_output():
            continue
        if exact and _becomes_float(output):
            continue
        elements = known.of(output)
        if elements is None or not all(isinstance(element, int) for element in elements) or output.dtype is None:
            continue
        assert node.graph is not None and output.shape is not None
        op = scope.builder(node.graph, before=node)
        array = np.array(elements, output.dtype.numpy()).reshape(() if not len(output.shape) else -1)
        replace_value(scope, output, op.constant(array), fresh=False)
        count += 1
    remove_dead([node] if count else [])
    return count


def _write_target(scope: Scope, known: ShapeValues, node: ir.Node) -> int:
    x, shape = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if x is None or shape is None or is_constant(shape) or node.graph is None:
        return 0
    elements, own = known.of(shape), dims(x)
    if elements is None:
        return 0
    if node.op_type == "Expand":
        target = _expand_target(elements, own)
    else:
        allows_zero = "allowzero" in node.attributes and node.attributes["allowzero"].value != 0
        target = None if allows_zero else _reshape_target(elements, own)
    if target is None:
        return 0
    op = scope.builder(node.graph, before=node)
    node.replace_input_with(1, op.constant(target))
    maker = shape.producer()
    remove_dead([maker] if maker is not None else [])
    return 1


def _expand_target(elements: Elements, own: Sequence[Dim] | None) -> list[int] | None:
    """1 keeps a dimension of the operand."""
    if own is None:
        return None
    padded = [1] * (len(elements) - len(own)) + list(own)
    target = []
    for element, size in zip(elements, padded[len(padded) - len(elements) :], strict=True):
        if isinstance(element, int):
            target.append(element)
        elif element is not None and same_dim(element, size):
            target.append(1)
        else:
            return None
    return target


def _reshape_target(elements: Elements, own: Sequence[Dim] | None) -> list[int] | None:
    """Numbers stay, 0 copies a dimension of the operand, and one that is neither is -1.

    -1 never stands beside a copied dimension: that fails for an operand without elements, where a computed shape does
    not.
    """
    target: list[int | None] = []
    for index, element in enumerate(elements):
        if isinstance(element, int):
            if element == 0:
                return None
            target.append(element)
        elif element is not None and own is not None and index < len(own) and same_dim(element, own[index]):
            target.append(0)
        else:
            target.append(None)
    open_ = [index for index, size in enumerate(target) if size is None]
    if not open_:
        copies = [index for index, size in enumerate(target) if size == 0]
        if len(copies) == 1 and -1 not in target:
            return [size or -1 for size in target]
        return [size or 0 for size in target]
    if len(open_) > 1 or -1 in target or 0 in target:
        return None
    return [-1 if size is None else size for size in target]
