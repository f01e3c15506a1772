"""What is in small integer tensors that are computed from shapes: numbers, and symbolic dimensions."""

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxgrad.engine.passes.queries import Dim, constant_value, dims, int_values, same_dim

Elements = tuple[Dim | None, ...]
"""None is an element that is not known."""

_LIMIT = 64
_DEEPEST = 200
_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL})


class ShapeValues:
    """Reads the elements of values of rank 0 and 1; remembers them, so it is to be made anew when a graph changed."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, Elements | None] = {}
        self._depth = 0

    def of(self, value: ir.Value | None) -> Elements | None:
        """The elements of `value`: None where it is no small integer tensor, or nothing is known."""
        if value is None or value.dtype not in _INTEGERS or value.shape is None or len(value.shape) > 1:
            return None
        if value not in self._known:
            if self._depth > _DEEPEST:
                return None
            self._depth += 1
            self._known[value] = self._compute(value)
            self._depth -= 1
        return self._known[value]

    def _compute(self, value: ir.Value) -> Elements | None:
        if (numbers := _constant(value)) is not None:
            return numbers
        node = value.producer()
        if node is None or node.domain != "" or node.op_type not in _RULES:
            return None
        if any(attribute.is_ref() for attribute in node.attributes.values()):
            return None
        found = _RULES[node.op_type](self, node, value)
        expected = 1 if not value.shape else value.shape[0]
        if found is None or len(found) > _LIMIT or (isinstance(expected, int) and expected != len(found)):
            return None
        return found


def _constant(value: ir.Value) -> Elements | None:
    if value.dtype == ir.DataType.BOOL:
        flags = constant_value(value, _LIMIT)
        return None if flags is None else tuple(int(flag) for flag in flags.reshape(-1))
    return int_values(value, _LIMIT)


def _attribute(node: ir.Node, name: str, default: int) -> int:
    return node.attributes[name].as_int() if name in node.attributes else default


def _shape(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    x = node.inputs[0]
    found = None if x is None else dims(x)
    if found is None:
        return None
    size = len(found)
    start, end = _attribute(node, "start", 0), _attribute(node, "end", size)
    return tuple(found[slice(start if start >= 0 else max(start + size, 0), end if end >= 0 else max(end + size, 0))])


def _size(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    x = node.inputs[0]
    found = None if x is None else dims(x)
    return None if found is None else (_product(found),)


def _same(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    return known.of(node.inputs[0])


def _gather(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    data, indices = known.of(node.inputs[0]), int_values(node.inputs[1], _LIMIT)
    if data is None or indices is None or any(not -len(data) <= index < len(data) for index in indices):
        return None
    return tuple(data[index] for index in indices)


def _slice(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    data = known.of(node.inputs[0])
    if "starts" in node.attributes:
        starts, ends = node.attributes["starts"].as_ints(), node.attributes["ends"].as_ints()
        steps: Sequence[int] | None = (1,)
    else:
        given = [int_values(v) for v in node.inputs[1:3]]
        starts, ends = given[0] or (), given[1] or ()
        steps = int_values(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else (1,)
    if data is None or len(starts) != 1 or len(ends) != 1 or steps is None or steps[0] < 1:
        return None
    size = len(data)
    first, last = (min(max(index + size if index < 0 else index, 0), size) for index in (starts[0], ends[0]))
    return data[first : last : steps[0]]


def _concat(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    joined: list[Dim | None] = []
    for operand in node.inputs:
        part = known.of(operand)
        if part is None:
            size = None if operand is None or not operand.shape else operand.shape[0]
            if not isinstance(size, int) or size > _LIMIT:
                return None
            part = (None,) * size
        joined.extend(part)
    return tuple(joined)


def _binary(combine: Callable[[Dim, Dim], Dim | None]) -> Callable[[ShapeValues, ir.Node, ir.Value], Elements | None]:
    def rule(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
        a, b = known.of(node.inputs[0]), known.of(node.inputs[1])
        if a is None or b is None:
            return None
        size = max(len(a), len(b)) if len(a) and len(b) else 0
        if {len(a), len(b)} - {1, size}:
            return None
        pairs = zip(a * size if len(a) == 1 else a, b * size if len(b) == 1 else b, strict=True)
        return tuple(None if x is None or y is None else combine(x, y) for x, y in pairs)

    return rule


def _add(a: Dim, b: Dim) -> Dim | None:
    return _within(a + b)


def _sub(a: Dim, b: Dim) -> Dim | None:
    return 0 if same_dim(a, b) else _within(a - b)


def _mul(a: Dim, b: Dim) -> Dim | None:
    return _within(a * b)


def _div(a: Dim, b: Dim) -> Dim | None:
    """Integer division truncates; that is floor for what may be negative only in numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if isinstance(b, int):
        return a if b == 1 else None
    return None


def _equal(a: Dim, b: Dim) -> Dim | None:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    if same_dim(a, b):
        return 1
    plain = [x for x in (a, b) if isinstance(x, int)]
    symbols = [x for x in (a, b) if not isinstance(x, int)]
    is_size = len(symbols) == 1 and symbols[0].value is not None and symbols[0].value.isidentifier()
    return 0 if is_size and plain and plain[0] < 0 else None


def _within(result: Dim) -> Dim | None:
    return None if isinstance(result, int) and not -(2**31) <= result < 2**31 else result


def _where(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    parts = [known.of(operand) for operand in node.inputs]
    if any(part is None or not part for part in parts):
        return None
    size = max(len(part) for part in parts if part is not None)
    conditions, xs, ys = [part * size if len(part) == 1 else part for part in parts if part is not None]
    if not len(conditions) == len(xs) == len(ys):
        return None
    return tuple(
        None if condition is None else x if condition else y for condition, x, y in zip(conditions, xs, ys, strict=True)
    )


def _constant_of_shape(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    shape = known.of(node.inputs[0])
    if shape is None or len(shape) > 1 or (shape and not isinstance(shape[0], int)):
        return None
    number = node.attributes["value"].as_tensor().numpy().reshape(-1)[0] if "value" in node.attributes else 0
    count = shape[0] if shape else 1
    return (int(number),) * count if isinstance(count, int) and 0 <= count <= _LIMIT else None


def _reduce_prod(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    data = known.of(node.inputs[0])
    if data is None or _attribute(node, "noop_with_empty_axes", 0) or any(element is None for element in data):
        return None
    return (_product([element for element in data if element is not None]),)


def _split(known: ShapeValues, node: ir.Node, value: ir.Value) -> Elements | None:
    data = known.of(node.inputs[0])
    sizes = [output.shape[0] if output.shape else None for output in node.outputs]
    index = node.outputs.index(value)
    before = [size for size in sizes[: index + 1] if isinstance(size, int)]
    if data is None or len(before) != index + 1:
        return None
    return data[sum(before[:-1]) : sum(before)]


def _product(sizes: Sequence[Dim]) -> Dim | None:
    total: Dim | None = 1
    for size in sizes:
        total = None if total is None else _mul(total, size) if total != 1 else size
    return total


_RULES: dict[str, Callable[[ShapeValues, ir.Node, ir.Value], Elements | None]] = {
    "Shape": _shape,
    "Size": _size,
    **dict.fromkeys(("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten"), _same),
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Add": _binary(_add),
    "Sub": _binary(_sub),
    "Mul": _binary(_mul),
    "Div": _binary(_div),
    "Equal": _binary(_equal),
    "Where": _where,
    "ConstantOfShape": _constant_of_shape,
    "ReduceProd": _reduce_prod,
    "Split": _split,
}
OPERATORS = frozenset(_RULES)
"""The operators that are looked through."""
