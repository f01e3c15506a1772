"""Questions about values that checks of rewrites ask. What is not known is None or False, never an error."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

Array = npt.NDArray[np.generic]
Dim = int | ir.SymbolicDim

_TOLERANCES = {ir.DataType.FLOAT16: 1e-3, ir.DataType.BFLOAT16: 8e-3, ir.DataType.DOUBLE: 1e-7}
_FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def rank(x: ir.Value) -> int | None:
    """The number of dimensions."""
    return None if x.shape is None else len(x.shape)


def dims(x: ir.Value) -> tuple[Dim, ...] | None:
    """The dimensions, numbers and symbols."""
    return None if x.shape is None else tuple(x.shape.dims)


def dim(x: ir.Value, axis: int) -> int | None:
    """One dimension, where it is a number; axes count from the end when negative."""
    if x.shape is None or not -len(x.shape) <= axis < len(x.shape):
        return None
    size = x.shape[axis]
    return size if isinstance(size, int) else None


def static_shape(x: ir.Value) -> tuple[int, ...] | None:
    """The shape, where all of it is numbers."""
    found = dims(x)
    if found is None:
        return None
    sizes = tuple(size for size in found if isinstance(size, int))
    return sizes if len(sizes) == len(found) else None


def element_count(x: ir.Value) -> int | None:
    """The number of elements."""
    shape = static_shape(x)
    return None if shape is None else int(np.prod(shape, dtype=np.int64))


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two dimensions are certainly equal: the same number, or the same named symbol."""
    if isinstance(a, int) or isinstance(b, int):
        return isinstance(a, int) and isinstance(b, int) and a == b
    return a.value is not None and a == b


def same_shape(x: ir.Value, y: ir.Value) -> bool:
    """Whether two values certainly have the same shape."""
    a, b = dims(x), dims(y)
    return a is not None and b is not None and len(a) == len(b) and all(map(same_dim, a, b))


def broadcasts_into(x: ir.Value, shape: ir.Value | Sequence[Dim | None]) -> bool:
    """Whether `x` broadcasts to `shape` (that of a value, or dimensions) without making it larger."""
    target = dims(shape) if isinstance(shape, ir.Value) else shape
    own = dims(x)
    if own is None or target is None or len(own) > len(target):
        return False
    pairs = zip(own, target[len(target) - len(own) :], strict=True)
    return all(a == 1 or (b is not None and same_dim(a, b)) for a, b in pairs)


def is_constant(x: ir.Value | None) -> bool:
    """Whether the content of `x` is known: an initializer that no input overrides, a Constant, or worked out."""
    return x is not None and _tensor(x) is not None


def constant_value(x: ir.Value | None, limit: int | None = None) -> Array | None:
    """The content of a constant of at most `limit` elements; to be read, not written."""
    tensor = None if x is None else _tensor(x)
    if tensor is None or (limit is not None and tensor.size > limit):
        return None
    return tensor.numpy()


def scalar_value(x: ir.Value | None) -> int | float | bool | None:
    """The number in a constant of one element."""
    array = constant_value(x, 1)
    if array is None or array.size != 1 or array.dtype.kind in "OSUc":
        return None
    number: int | float | bool = array.astype(np.float64).item() if array.dtype.kind in "fV" else array.item()
    return number


def int_values(x: ir.Value | None, limit: int = 256) -> tuple[int, ...] | None:
    """The numbers in a constant of integers, flat: axes, pads, a shape."""
    array = constant_value(x, limit)
    return None if array is None or array.dtype.kind not in "iu" else tuple(int(i) for i in array.reshape(-1))


def equals(x: ir.Value | None, value: object) -> bool:
    """Whether `x` is a constant of this value, floats up to the rounding of its dtype.

    A number: one element, of any rank. A list or array: the same shape.
    """
    if x is None or (tensor := _tensor(x)) is None or tensor.dtype == ir.DataType.STRING:
        return False
    wanted = np.asarray(value)
    if tensor.size != wanted.size or (wanted.ndim and tuple(tensor.shape) != wanted.shape):
        return False
    array = tensor.numpy().reshape(wanted.shape)
    if tensor.dtype not in _FLOATS:
        return bool(np.array_equal(array, wanted))
    tolerance = _TOLERANCES.get(tensor.dtype, 1e-6)
    if wanted.size == 1:  # most are scalars, and allclose is slow
        found, number = float(array.reshape(())), float(wanted.reshape(()))
        return found == number or abs(found - number) <= tolerance * abs(number)
    return bool(np.allclose(array.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=0))


def all_equal(x: ir.Value | None, number: float, limit: int = 1 << 20) -> bool:
    """Whether every element of a constant is exactly `number`, and there is one; -0.0 is not 0.0."""
    array = constant_value(x, limit)
    if array is None or array.size == 0 or array.dtype.kind in "OSU":
        return False
    same = bool((array == np.asarray(number).astype(array.dtype)).all())
    if not same or number != 0 or array.dtype.kind in "biu":
        return same
    signs = np.signbit(array.astype(np.float64))
    return bool((signs == np.signbit(number)).all())


def is_float(x: ir.Value) -> bool:
    """Whether `x` is a tensor of float32, float64, float16 or bfloat16."""
    return x.dtype in _FLOATS


def readers(x: ir.Value) -> list[ir.Node]:
    """The nodes that read `x`, each once, those in sub-graphs too."""
    return list(dict.fromkeys(user for user, _ in x.uses()))


def single_reader(x: ir.Value) -> bool:
    """Whether exactly one input of a node reads `x`, and it is no graph output."""
    return len(x.uses()) == 1 and not x.is_graph_output()


def producer(x: ir.Value | None, op_type: str, domain: str = "") -> ir.Node | None:
    """The node that makes `x`, where it is of this operator."""
    node = None if x is None else x.producer()
    return node if node is not None and node.op_type == op_type and node.domain == domain else None


def _tensor(x: ir.Value) -> ir.TensorProtocol | None:
    if x.const_value is not None:
        return None if x.is_graph_input() else x.const_value
    node = x.producer()
    if node is None or node.op_type != "Constant" or node.domain != "":
        return None
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    return ir.convenience.get_const_tensor(x)


def reduction(y: ir.Value) -> tuple[tuple[int, ...], bool] | None:
    """The axes that the Reduce node that makes `y` reduces, sorted and counted from 0, and whether it keeps them.

    None where they, or the rank of its input, are not known, and where it reduces nothing.
    """
    node = y.producer()
    x = node.inputs[0] if node is not None and node.inputs else None
    if node is None or x is None or (size := rank(x)) is None:
        return None
    given = node.inputs[1] if len(node.inputs) > 1 else None
    axes = int_values(given) if given is not None else _int_attribute(node, "axes", ())
    keeps = _int_attribute(node, "keepdims", (1,))
    if axes is None or any(not -size <= axis < size for axis in axes) or (not axes and _reduces_nothing(node)):
        return None
    counted = tuple(sorted({axis % size for axis in axes})) if axes else tuple(range(size))
    return counted, keeps != (0,)


def _reduces_nothing(node: ir.Node) -> bool:
    return _int_attribute(node, "noop_with_empty_axes", (0,)) != (0,)


def _int_attribute(node: ir.Node, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    attribute = node.attributes.get(name)
    if attribute is None:
        return default
    return tuple(attribute.as_ints()) if attribute.type == ir.AttributeType.INTS else (attribute.as_int(),)


def keeps_rank(y: ir.Value, x: ir.Value) -> bool:
    """Whether no constant on the way from `x` to `y`, a chain of elementwise nodes, has more dimensions than `x`."""
    size, pending, seen = rank(x), [y], {x}
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        node = value.producer()
        if is_constant(value):
            known = rank(value)
            if known is None or known > (size or 0):
                return False
        elif node is None or len(seen) > 64:
            return False
        else:
            pending.extend(operand for operand in node.inputs if operand is not None)
    return True


def ints_of(y: ir.Value, position: int, name: str) -> tuple[int, ...] | None:
    """The integers that the node of `y` takes as an input or, in older opsets, as an attribute; () where it has
    neither, None where they are not known."""
    node = y.producer()
    if node is None:
        return None
    if name in node.attributes:
        attribute = node.attributes[name]
        return None if attribute.is_ref() else tuple(attribute.as_ints())
    given = node.inputs[position] if position < len(node.inputs) else None
    return () if given is None else int_values(given)


def from_front(axes: Sequence[int], rank: int | None) -> tuple[int, ...] | None:
    """Axes counted from the front; None where they are out of range, come twice, or count from an unknown end."""
    if any(axis < 0 for axis in axes) and rank is None:
        return None
    found = tuple(axis + (rank or 0) if axis < 0 else axis for axis in axes)
    inside = all(axis >= 0 and (rank is None or axis < rank) for axis in found)
    return found if inside and len(set(found)) == len(found) else None


def quantizes_at_run_time(graphs: Iterable[ir.Graph]) -> bool:
    """Whether activations are rounded to steps that depend on the data: a last bit can then move a value by a step."""
    return any(node.op_type == "DynamicQuantizeLinear" for graph in graphs for node in graph)
