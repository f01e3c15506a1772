"""What a drawing of a graph shows: boxes for nodes, inputs and outputs, arrows for values."""

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnxgrad.engine.ir.clone import clone
from onnxgrad.engine.ir.infer import infer_shapes

_LONGEST = 60
"""Characters of an attribute."""
_LINES = 24
"""Lines of details."""


@dataclass(frozen=True)
class Box:
    """kind: "input", "output" or "node".  details: lines for a tooltip: name, inputs, outputs, attributes."""

    kind: str
    label: str
    details: str


@dataclass(frozen=True)
class Arrow:
    """Boxes by number, and the value that goes along. captured: it is read in a body of the node."""

    start: int
    end: int
    value: str
    shape: str
    captured: bool = False


@dataclass(frozen=True)
class Picture:
    """Boxes in topological order; constants are not drawn, the details of their readers name them."""

    name: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def picture(model: ir.Model) -> Picture:
    """The main graph of a model. Shapes that the file does not give are inferred."""
    copy = clone(model)
    infer_shapes(copy)
    graph = copy.graph
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    number: dict[ir.Value, int] = {}
    for value in graph.inputs:
        if not value.is_initializer():
            number[value] = len(boxes)
            boxes.append(Box("input", value.name or "", _describe(value)))
    for node in graph:
        if node.op_type == "Constant" and node.domain == "":
            continue
        here = len(boxes)
        boxes.append(Box("node", node.op_type, _details(node)))
        for value, captured in _read(node):
            if value in number:
                arrows.append(Arrow(number[value], here, value.name or "", _shape(value), captured))
        number |= dict.fromkeys(node.outputs, here)
    for value in graph.outputs:
        if value in number:
            arrows.append(Arrow(number[value], len(boxes), value.name or "", _shape(value)))
        boxes.append(Box("output", value.name or "", _describe(value)))
    return Picture(graph.name or "graph", tuple(boxes), tuple(dict.fromkeys(arrows)))


def _read(node: ir.Node) -> Iterator[tuple[ir.Value, bool]]:
    """The values that a node reads, and those that its bodies do."""
    yield from ((value, False) for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) and not attribute.is_ref():
            bodies = [attribute.as_graph()] if attribute.type == ir.AttributeType.GRAPH else attribute.as_graphs()
            for body in bodies:
                yield from ((value, True) for inner in body.all_nodes() for value in inner.inputs if value is not None)
                yield from ((value, True) for value in body.outputs)


def _details(node: ir.Node) -> str:
    domain = f"{node.domain}::" if node.domain else ""
    lines = [f"{domain}{node.op_type}  {node.name or ''}".rstrip()]
    lines += [f"in   {_describe(value)}" for value in node.inputs if value is not None]
    lines += [f"out  {_describe(value)}" for value in node.outputs if value.name]
    lines += [_attribute(attribute) for attribute in node.attributes.values()]
    return "\n".join([*lines[:_LINES], f"and {len(lines) - _LINES} more"] if len(lines) > _LINES + 1 else lines)


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"{attribute.name} = @{attribute.ref_attr_name}"
    if attribute.type == ir.AttributeType.GRAPH:
        return f"{attribute.name}: a graph of {len(attribute.as_graph())} nodes"
    if attribute.type == ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        return f"{attribute.name}: {tensor.dtype.name.lower()}{list(tensor.shape.numpy())}"
    text = str(attribute.value)
    return f"{attribute.name} = {text if len(text) <= _LONGEST else f'{text[:_LONGEST]}...'}"


def _describe(value: ir.Value) -> str:
    constant = " (constant)" if value.is_initializer() and not value.is_graph_input() else ""
    dtype = value.dtype.name.lower() if value.dtype is not None else "?"
    return f"{value.name}: {dtype}{_shape(value)}{constant}"


def _shape(value: ir.Value) -> str:
    if value.shape is None:
        return ""
    dims = [str(dim) if isinstance(dim, int) else dim.value or "?" for dim in value.shape]
    return f"[{', '.join(dims)}]"
