"""The size that two symbolic dimensions broadcast to, where onnx_shape_inference takes them to be equal."""

import hashlib
import re

import onnx_ir as ir
from onnx_shape_inference import _broadcast

Dim = int | ir.SymbolicDim

_SIGNS = {"+": "plus", "-": "minus", "*": "times", "/": "over", "(": "L", ")": "R"}
_JOIN = "_or_"
_LONGEST = 80  # characters of a name

_assume_equal = _broadcast._broadcast_dim


def mend_broadcasting() -> None:
    """Let onnx_shape_inference broadcast two different symbols to a third: either may turn out to be 1."""
    _broadcast._broadcast_dim = broadcast_dim


def broadcast_dim(dim1: Dim, dim2: Dim) -> Dim | None:
    """The broadcast size, None if the two do not fit. N with M gives the symbol N_or_M, whatever the order, and N_or_M
    with M gives N_or_M again."""
    if isinstance(dim1, int) or isinstance(dim2, int) or dim1 == dim2 or None in (dim1.value, dim2.value):
        result: Dim | None = _assume_equal(dim1, dim2)
        return result
    first, second = _parts(dim1), _parts(dim2)
    if first >= second or second >= first:
        return dim1 if first >= second else dim2
    name = _JOIN.join(sorted(first | second))
    if len(name) > _LONGEST:
        name = f"broadcast_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    return ir.SymbolicDim(name)


def _parts(dim: ir.SymbolicDim) -> set[str]:
    spelled = re.sub(r"\W", lambda sign: _SIGNS.get(sign[0], f"x{ord(sign[0]):x}"), str(dim).replace(" ", ""))
    spelled = f"n{spelled}" if spelled[:1].isdigit() else spelled  # 2*N: a symbol begins with a letter
    return set(spelled.split(_JOIN))
