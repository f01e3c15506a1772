"""What operators take and give: one set of methods for variables of a graph and for tensors that run at once."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Self, TypeAlias, TypeVar

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.signature import (
    Parameter,
    Signature,
    as_array,
    as_type,
    literal,
    signature_of,
    whole_numbers,
)

Literal: TypeAlias = (
    "bool | int | float | str | np.ndarray | np.generic | Sequence[int] | Sequence[float] | Sequence[str]"
)
Input: TypeAlias = "Operand | Literal | None"
Dim: TypeAlias = int | str | None
_Kind = TypeVar("_Kind", bound="Operand")


@dataclass(frozen=True)
class Call:
    """One use of an operator. Inputs are operands, arrays, or None for an optional input left out."""

    op_type: str
    inputs: tuple[Operand | np.ndarray | None, ...]
    attributes: Mapping[str, object]
    outputs: int = 1
    domain: str = ""


class Operand(ABC):
    """A value that operators can be applied to: a Var of a graph, or a Tensor.

    Arithmetic, comparisons and indexing are ONNX operators; Python numbers take the dtype of the operand that they
    meet. `==` compares identity, as dicts and sets need it: `og.op.Equal` compares elements.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves array * operand to the operand

    @property
    @abstractmethod
    def element_type(self) -> ir.DataType | None:
        """The ONNX type of the elements; None where it is not known."""

    @property
    @abstractmethod
    def shape(self) -> tuple[Dim, ...] | None:
        """Sizes: an int, a name where it is symbolic, None where it is not known; None without a rank."""

    @abstractmethod
    def _apply(self, call: Call) -> tuple[Operand, ...]:
        """The outputs of an operator that this operand, or one of its kind, is an input of."""

    @property
    def _weight(self) -> int:
        """Of several kinds of operands in one call, the heaviest runs it; lighter ones turn themselves into it."""
        return 1

    @property
    def dtype(self) -> np.dtype[np.generic] | None:
        """The numpy dtype of the elements (of ml_dtypes where numpy has none, object for strings)."""
        kind = self.element_type
        if kind is None:
            return None
        return np.dtype(object) if kind == ir.DataType.STRING else kind.numpy()

    @property
    def ndim(self) -> int:
        """The number of dimensions. Raises: InputError if it is not known."""
        if self.shape is None:
            raise InputError("the rank of the operand is not known", where=repr(self))
        return len(self.shape)

    def __iter__(self) -> Iterator[NoReturn]:
        raise NotImplementedError("operands are not iterable: use og.op.Split, or index with a range of known length")

    def __bool__(self) -> bool:
        raise InputError(
            f"the truth of {self!r} is not known while a graph is written",
            fix="og.op.Where or og.op.If for a choice at run time, `is None` for a missing operand",
        )

    def __add__(self, other: Input) -> Self:
        return _one(self, "Add", self, other)

    def __radd__(self, other: Input) -> Self:
        return _one(self, "Add", other, self)

    def __sub__(self, other: Input) -> Self:
        return _one(self, "Sub", self, other)

    def __rsub__(self, other: Input) -> Self:
        return _one(self, "Sub", other, self)

    def __mul__(self, other: Input) -> Self:
        return _one(self, "Mul", self, other)

    def __rmul__(self, other: Input) -> Self:
        return _one(self, "Mul", other, self)

    def __truediv__(self, other: Input) -> Self:
        return _one(self, "Div", self, other)

    def __rtruediv__(self, other: Input) -> Self:
        return _one(self, "Div", other, self)

    def __floordiv__(self, other: Input) -> Self:
        return _floor_divide(self, self, other)

    def __rfloordiv__(self, other: Input) -> Self:
        return _floor_divide(self, other, self)

    def __mod__(self, other: Input) -> Self:
        return _remainder(self, self, other)

    def __rmod__(self, other: Input) -> Self:
        return _remainder(self, other, self)

    def __pow__(self, other: Input) -> Self:
        return _one(self, "Pow", self, other)

    def __rpow__(self, other: Input) -> Self:
        if isinstance(other, bool | int | float) and self.element_type is not None:
            other = as_type(np.asarray(other), self.element_type)  # the specification lets the two differ
        return _one(self, "Pow", other, self)

    def __matmul__(self, other: Input) -> Self:
        return _one(self, "MatMul", self, other)

    def __rmatmul__(self, other: Input) -> Self:
        return _one(self, "MatMul", other, self)

    def __neg__(self) -> Self:
        return _one(self, "Neg", self)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return _one(self, "Abs", self)

    def __invert__(self) -> Self:
        return _one(self, "Not" if _is_bool(self) else "BitwiseNot", self)

    def __and__(self, other: Input) -> Self:
        return _one(self, "And" if _is_bool(self) else "BitwiseAnd", self, other)

    def __or__(self, other: Input) -> Self:
        return _one(self, "Or" if _is_bool(self) else "BitwiseOr", self, other)

    def __xor__(self, other: Input) -> Self:
        return _one(self, "Xor" if _is_bool(self) else "BitwiseXor", self, other)

    def __rand__(self, other: Input) -> Self:
        return _one(self, "And" if _is_bool(self) else "BitwiseAnd", other, self)

    def __ror__(self, other: Input) -> Self:
        return _one(self, "Or" if _is_bool(self) else "BitwiseOr", other, self)

    def __rxor__(self, other: Input) -> Self:
        return _one(self, "Xor" if _is_bool(self) else "BitwiseXor", other, self)

    def __lt__(self, other: Input) -> Self:
        return _one(self, "Less", self, other)

    def __le__(self, other: Input) -> Self:
        return _one(self, "LessOrEqual", self, other)

    def __gt__(self, other: Input) -> Self:
        return _one(self, "Greater", self, other)

    def __ge__(self, other: Input) -> Self:
        return _one(self, "GreaterOrEqual", self, other)

    def __getitem__(self, key: object) -> Self:
        from onnxgrad.engine.graph.indexing import index

        return index(self, key)

    def reshape(self, *shape: int | Sequence[int] | Operand) -> Self:
        """The same elements in another shape; -1 is worked out, 0 keeps the size at its place."""
        first = shape[0] if len(shape) == 1 else None
        return _one(self, "Reshape", self, first if isinstance(first, Operand) else whole_numbers(shape, "size"))

    def transpose(self, *axes: int | Sequence[int]) -> Self:
        """The axes in another order; without arguments, reversed."""
        return _one(self, "Transpose", self, perm=whole_numbers(axes, "axis") or None)

    @property
    def T(self) -> Self:  # noqa: N802  # numpy's name
        """The axes reversed."""
        return self.transpose()

    def full_like(self, value: float) -> Self:
        """A value of this shape and dtype whose every element is `value`. Raises: InputError where it cannot be."""
        from onnxgrad.engine.graph.fill import full_like

        return full_like(self, value)

    def astype(self, dtype: object) -> Self:
        """Elements cast to a numpy dtype or an onnx_ir.DataType."""
        return _one(self, "Cast", self, to=int(element_type_of(dtype)))

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Self:
        """ReduceSum over these axes, or over all."""
        return _reduce("ReduceSum", self, axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Self:
        """ReduceMean over these axes, or over all."""
        return _reduce("ReduceMean", self, axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Self:
        """ReduceMax over these axes, or over all."""
        return _reduce("ReduceMax", self, axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Self:
        """ReduceMin over these axes, or over all."""
        return _reduce("ReduceMin", self, axis, keepdims)


Handler = Callable[[Call], tuple[Operand, ...]]


class _Entered(threading.local):
    """What runs calls that no operand decides, in this thread: the innermost `with graph:` is the last."""

    def __init__(self) -> None:
        self.handlers: list[Handler] = []


_GRAPHS = _Entered()

_ELSE: list[Handler] = []
"""What runs them outside of every graph: tensors, once they are loaded."""


def run_without_operands(handler: Handler, innermost: bool = True) -> None:
    """Let `handler` have the calls that hold no operand, such as og.op.RandomNormal(shape=[2]).

    innermost: in this thread, before all that are there; else in all threads, where there is no graph.
    """
    (_GRAPHS.handlers if innermost else _ELSE).append(handler)


def stop_running_without_operands(handler: Handler) -> None:
    """Take back the last `run_without_operands(handler)`."""
    position = max(i for i, known in enumerate(_GRAPHS.handlers) if known == handler)
    del _GRAPHS.handlers[position]


def apply(
    op_type: str,
    inputs: Sequence[Input],
    attributes: Mapping[str, object] | None = None,
    outputs: int | None = None,
    domain: str = "",
    *,
    standard: bool = True,
) -> tuple[Operand, ...]:
    """The outputs of an operator, run or added to a graph by the heaviest of its operands.

    Attributes that are None are left out. `outputs`: how many to ask for. `standard`: the operator is one of the
    specification, which gives literals their types and checks names.

    Raises: InputError, OptionError, ShapeError for operands that do not fit; GraphError without an operand.
    """
    signature = signature_of(op_type, domain) if standard else None
    given = {name: value for name, value in (attributes or {}).items() if value is not None}
    if signature is not None and (given or outputs != 1):
        given = signature.check(given, outputs)
    count = outputs if outputs is not None else 1 if signature is None else signature.number_of_outputs(inputs, given)
    leader: Operand | None = None
    has_literals = signature is not None and len(inputs) > len(signature.parameters)  # which may be one too many
    is_short = signature is not None and len(inputs) < signature.required
    for value in inputs:
        if isinstance(value, Operand):
            leader = value if leader is None or value._weight > leader._weight else leader
        elif value is not None:
            has_literals = True
        else:
            is_short = True  # perhaps
    if is_short and signature is not None:
        signature.check_inputs(inputs)
    operands = _operands(inputs, signature) if has_literals else tuple(inputs)
    call = Call(op_type, operands, given, count, domain)  # type: ignore[arg-type]  # none is a literal
    if leader is not None:
        return leader._apply(call)
    if not (_GRAPHS.handlers or _ELSE):
        raise GraphError(
            f"nothing says where {op_type} is to run: none of its inputs is a Var or a Tensor",
            fix="enter `with graph:`, or make an input a Var (graph.constant(x)) or a Tensor (og.Tensor(x))",
        )
    return (_GRAPHS.handlers or _ELSE)[-1](call)


def apply_in_graph(call: Call) -> tuple[Operand, ...]:
    """The outputs of a call whose operands are parameters only: the innermost `with graph:` says where it is to run."""
    if not _GRAPHS.handlers:
        raise GraphError(
            f"nothing says in which graph {call.op_type} is to run: none of its inputs is a Var",
            where=f"{call.op_type}({', '.join('None' if v is None else repr(v) for v in call.inputs)})",
            fix="graph.param(...) makes a Var of a parameter, or enter `with graph:`",
        )
    return _GRAPHS.handlers[-1](call)


def _operands(inputs: Sequence[Input], signature: Signature | None) -> tuple[Operand | np.ndarray | None, ...]:
    parameters: list[Parameter | None]
    parameters = [None if signature is None else signature.parameter(index) for index in range(len(inputs))]
    known: dict[str, ir.DataType] = {}
    scalars: list[tuple[Parameter, np.dtype[np.generic]]] = []
    for value, parameter in zip(inputs, parameters, strict=True):
        if parameter is None or (parameter.variadic and not parameter.alike):
            continue
        if isinstance(value, Operand):
            if (kind := value.element_type) is not None:
                known.setdefault(parameter.type_name, kind)
        elif isinstance(value, np.ndarray):
            known.setdefault(parameter.type_name, ir.DataType.from_numpy(value.dtype))
        elif isinstance(value, np.generic):
            scalars.append((parameter, value.dtype))
    for parameter, dtype in scalars:
        known.setdefault(parameter.type_name, ir.DataType.from_numpy(dtype))  # where no tensor says otherwise
    _agree(inputs, parameters, known)
    return tuple(
        value if value is None or isinstance(value, Operand) else literal(value, parameter, known)
        for value, parameter in zip(inputs, parameters, strict=True)
    )


def _agree(inputs: Sequence[Input], parameters: Sequence[Parameter | None], known: dict[str, ir.DataType]) -> None:
    """Let literals that must have one type, which no operand gives, be float32 where one of them is a float."""
    alone: dict[str, list[Input]] = {}
    for value, parameter in zip(inputs, parameters, strict=True):
        if parameter is None or value is None or isinstance(value, Operand) or parameter.type_name in known:
            continue
        if len(parameter.types) > 1 and (parameter.alike or not parameter.variadic):
            alone.setdefault(parameter.type_name, []).append(value)
    for name, values in alone.items():
        if len(values) > 1 and {as_array(value).dtype.kind for value in values} >= {"f", "i"}:
            known[name] = ir.DataType.FLOAT


def element_type_of(dtype: object) -> ir.DataType:
    """The ONNX type of a numpy dtype, its name, or an onnx_ir.DataType."""
    if isinstance(dtype, ir.DataType):
        return dtype
    if dtype is str or dtype == "string":
        return ir.DataType.STRING
    try:
        return ir.DataType.from_numpy(np.dtype(dtype))  # type: ignore[call-overload]
    except (TypeError, ValueError) as error:
        raise InputError(f"{dtype!r} is no dtype", fix='a numpy dtype, its name ("float32") or ir.DataType') from error


def _one(like: _Kind, op_type: str, *inputs: Input, **attributes: object) -> _Kind:
    """The only output; `like` is the operand whose kind it has."""
    return apply(op_type, inputs, attributes, outputs=1)[0]  # type: ignore[return-value]


def _is_bool(value: Operand) -> bool:
    return value.element_type == ir.DataType.BOOL


def _is_integral(left: Input, right: Input) -> bool:
    kinds = [v.element_type for v in (left, right) if isinstance(v, Operand)]
    return all(kind is not None and kind.is_integer() for kind in kinds)


def _floor_divide(like: _Kind, left: Input, right: Input) -> _Kind:
    """Python's //: rounded down, where ONNX's Div of integers rounds towards zero."""
    if _is_integral(left, right):
        return _one(like, "Div", _one(like, "Sub", left, _one(like, "Mod", left, right)), right)
    return _one(like, "Floor", _one(like, "Div", left, right))


def _remainder(like: _Kind, left: Input, right: Input) -> _Kind:
    """Python's %: the sign of the divisor."""
    if _is_integral(left, right):
        return _one(like, "Mod", left, right)
    return _one(like, "Sub", left, _one(like, "Mul", _floor_divide(like, left, right), right))


def _reduce(op_type: str, value: _Kind, axis: int | Sequence[int] | None, keepdims: bool) -> _Kind:
    axes = None if axis is None else whole_numbers(axis, "axis")
    return _one(value, op_type, value, axes, keepdims=int(keepdims))
