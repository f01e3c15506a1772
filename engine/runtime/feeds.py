"""From what a caller gives to what a session takes: names, types and shapes are checked, and an error names them."""

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError
from onnxgrad.engine.runtime.call_signature import (
    CallSignature,
    Feed,
    OptionalType,
    Port,
    SequenceType,
    TensorType,
    ValueType,
    describe,
    describe_all,
    dtype_name,
    is_plain,
    symbols_of,
)
from onnxgrad.engine.runtime.values import (
    Array,
    SupportsArray,
    SupportsDLPack,
    SupportsDLPackDevice,
    from_dlpack,
    numpy_dtype,
)

if TYPE_CHECKING:
    from onnxruntime import OrtValue

_HOST_MEMORY = (1, 3)  # DLPack's kDLCPU and kDLCUDAHost
_OF_PYTHON = (bool, int, float, complex, str, bytes, list, tuple)


class FeedReader:
    """Turns the arguments of a call into feeds. Made once for a signature; may be used by several threads."""

    def __init__(self, signature: CallSignature) -> None:
        self.signature = signature
        self._ports = {port.name: port for port in signature.inputs}
        self._slots = tuple(_Slot(port) for port in signature.inputs)
        axes: dict[str, list[tuple[str, int]]] = {}
        for port in signature.inputs:
            for axis, symbol in symbols_of(port.type).items():
                axes.setdefault(symbol, []).append((port.name, axis))
        self._shared = tuple((symbol, places) for symbol, places in axes.items() if len(places) > 1)
        self._quick = tuple((slot.port.name, slot.dtype, slot.rank, slot.sizes) for slot in self._slots)
        self._pairs = tuple((*first, *other) for _, (first, *others) in self._shared for other in others)

    def read(self, args: tuple[object, ...], named: Mapping[str, object]) -> dict[str, Feed]:
        """The feeds of the call `run(*args, **named)`; optional inputs that are not given are left out.

        Raises: InputError for an unknown, missing or doubly given name, and for a wrong type, rank or size.
        """
        if args:
            named = self._name(args, named)
        if self._fit_as_they_are(named):
            return named  # type: ignore[return-value]  # arrays, in a dict that was made for this call
        feeds: dict[str, Feed] = {}
        for slot in self._slots:
            name = slot.port.name
            if name in named:
                value = named[name]
                fits = type(value) is np.ndarray and slot.fits(value)
                feeds[name] = value if fits else self._convert(slot.port, value)
            elif slot.port.required:
                self._missing(named)
        if len(feeds) != len(named):
            self._unknown(named)
        for symbol, places in self._shared:
            if not _agree(places, feeds):
                self._compare(symbol, places, feeds)
        return feeds

    def _fit_as_they_are(self, named: Mapping[str, object]) -> bool:
        """Whether every input is there, as an array of its dtype and sizes: so it is in most calls."""
        if len(named) != len(self._quick):
            return False
        for name, dtype, rank, sizes in self._quick:
            value = named.get(name)
            if type(value) is not np.ndarray or (value.dtype is not dtype and value.dtype != dtype):
                return False
            if rank >= 0 and value.ndim != rank:
                return False
            for axis, size in sizes:
                if value.shape[axis] != size:
                    return False
        for first, axis, other, place in self._pairs:  # noqa: SIM110 - a loop takes half the time of all()
            if named[first].shape[axis] != named[other].shape[place]:  # type: ignore[attr-defined]  # arrays, see above
                return False
        return True

    def _name(self, args: tuple[object, ...], named: Mapping[str, object]) -> Mapping[str, object]:
        first = args[0]
        if len(args) == 1 and isinstance(first, Mapping) and all(isinstance(key, str) for key in first):
            takes_a_map = bool(self._slots) and str(self._slots[0].port.type).startswith("map")
            if not takes_a_map or all(key in self._ports for key in first):
                self._refuse_doubles([key for key in first if key in named])
                return {**first, **named}
        if len(args) > len(self._slots):
            self._fail(f"{len(args)} inputs are given, but the model takes {len(self._slots)}", "")
        positional = {slot.port.name: value for slot, value in zip(self._slots, args, strict=False)}
        self._refuse_doubles([name for name in positional if name in named])
        return {**positional, **named}

    def _refuse_doubles(self, names: Sequence[str]) -> None:
        if names:
            self._fail(f"input {names[0]!r} is given twice", "pass it once")

    def _missing(self, named: Mapping[str, object]) -> NoReturn:
        for name in named:
            if name not in self._ports:
                self._unknown(named)
        missing = [port.name for port in self.signature.inputs if port.required and port.name not in named]
        plural = "s are" if len(missing) > 1 else " is"
        given = describe_all(named) or "nothing"
        self._fail(f"input{plural} missing: {', '.join(map(repr, missing))} (given: {given})", "pass every input")

    def _unknown(self, named: Mapping[str, object]) -> NoReturn:
        name = next(name for name in named if name not in self._ports)
        folded = {known.casefold(): known for known in self._ports}
        near = [folded[key] for key in difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)]
        what = f"the model has no input {name!r} (given: {describe_all(named)})"
        self._fail(what, f"did you mean {near[0]!r}?" if near else f"the inputs are {', '.join(self._ports)}")

    def _convert(self, port: Port, value: object) -> Feed:
        try:
            return _convert(port.type, value, port.name)
        except InputError as error:
            where = error.where or f"{port} = {describe(value)}"
            raise InputError(error.what, where=where, why=self._expected(error.why), fix=error.fix) from error

    def _compare(self, symbol: str, places: list[tuple[str, int]], feeds: Mapping[str, Feed]) -> None:
        seen: tuple[str, int, int] | None = None
        for name, axis in places:
            if name not in feeds:
                continue
            size = _shape_of(feeds[name])[axis]
            if seen is None:
                seen = (name, axis, size)
            elif seen[2] != size:
                what = f"{symbol!r} is {seen[2]} in axis {seen[1]} of {seen[0]!r} but {size} in axis {axis} of {name!r}"
                self._fail(what, "axes of one name must have one size in a call")

    def _fail(self, what: str, fix: str) -> NoReturn:
        raise InputError(what, why=self._expected(""), fix=fix)

    def _expected(self, why: str) -> str:
        takes = f"the model is {self.signature}"
        return f"{why}; {takes}" if why else takes


def _agree(places: list[tuple[str, int]], feeds: Mapping[str, Feed]) -> bool:
    """Whether axes of one name have one size, as far as that is quickly seen: every input an array."""
    size = -1
    for name, axis in places:
        feed = feeds.get(name)
        if type(feed) is not np.ndarray:
            return False
        if size != feed.shape[axis]:
            if size >= 0:
                return False
            size = feed.shape[axis]
    return True


class _Slot:
    """A port with what is needed to accept a fitting array at once."""

    def __init__(self, port: Port) -> None:
        self.port = port
        kind = port.type
        self.dtype: np.dtype[np.generic] | None = None
        self.rank = -1
        self.sizes: tuple[tuple[int, int], ...] = ()
        if isinstance(kind, TensorType) and kind.dtype != ir.DataType.STRING:
            self.dtype = numpy_dtype(kind.dtype)
            if kind.shape is not None:
                self.rank = len(kind.shape)
                self.sizes = tuple((axis, dim) for axis, dim in enumerate(kind.shape) if isinstance(dim, int))

    def fits(self, array: Array) -> bool:
        if array.dtype != self.dtype:
            return False
        if self.rank < 0:
            return True
        shape = array.shape
        if len(shape) != self.rank:
            return False
        for axis, size in self.sizes:  # noqa: SIM110 - a loop takes half the time of all()
            if shape[axis] != size:
                return False
        return True


def _convert(kind: ValueType, value: object, name: str) -> Feed:
    match kind:
        case OptionalType(element):
            return None if value is None else _convert(element, value, name)
        case SequenceType(element):
            if not isinstance(value, list | tuple):
                raise InputError(f"input {name!r} is a sequence: it wants a list", fix=f"{name}=[value, ...]")
            return [_convert(element, item, f"{name}[{index}]") for index, item in enumerate(value)]
        case TensorType():
            return _convert_tensor(kind, value, name)
        case _:
            if value is None:
                raise InputError(f"input {name!r} is None")
            return value  # maps and sparse tensors are onnxruntime's to check


def _convert_tensor(kind: TensorType, value: object, name: str) -> Feed:
    if isinstance(value, np.ndarray | np.generic):
        array: Array = np.asarray(value)
    elif value is None:
        raise InputError(f"input {name!r} is None, but it is not optional", fix="pass an array")
    elif isinstance(value, _OF_PYTHON):
        array = _from_python(kind, value, name)
    else:
        shared = _from_other_library(kind, value, name)
        if not isinstance(shared, np.ndarray):
            return shared
        array = shared
    if kind.dtype == ir.DataType.STRING:
        array = _strings(array, name)
    elif array.dtype != numpy_dtype(kind.dtype):
        _wrong_dtype(kind, array.dtype.name, name)
    _check_shape(kind, array.shape, name)
    return array


def _from_other_library(kind: TensorType, value: object, name: str) -> "Array | OrtValue":
    from onnxruntime import OrtValue

    if isinstance(value, SupportsArray) and not isinstance(value, OrtValue) and not _is_on_a_device(value):
        try:
            return np.asarray(value)
        except Exception as error:  # a device tensor, gradients attached, a dtype that numpy lacks
            if not isinstance(value, SupportsDLPack):
                raise InputError(f"input {name!r} cannot be read as an array", why=str(error)) from error
    if isinstance(value, SupportsDLPack):
        shared = value if isinstance(value, OrtValue) else from_dlpack(value)
        if not shared.is_tensor():
            raise InputError(f"input {name!r} is not a tensor")
        given = ir.DataType(shared.element_type())
        if given != kind.dtype:
            _wrong_dtype(kind, dtype_name(given), name)
        _check_shape(kind, tuple(shared.shape()), name)
        return shared
    fix = "pass a numpy array, a number, a list of numbers, or a tensor that supports __array__ or DLPack"
    raise InputError(f"input {name!r} is a {type(value).__name__}, which is not an array", fix=fix)


def _is_on_a_device(value: object) -> bool:
    """Whether the memory is one that numpy could only copy: jax does so without a word."""
    return isinstance(value, SupportsDLPackDevice) and value.__dlpack_device__()[0] not in _HOST_MEMORY


def _from_python(kind: TensorType, value: object, name: str) -> Array:
    """Numbers and lists of Python take the dtype of the input where no kind of number changes; arrays never do."""
    try:
        array: Array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise InputError(f"input {name!r} is not a regular list of numbers", why=str(error)) from error
    if kind.dtype == ir.DataType.STRING or _holds_arrays(value):
        return array
    target = numpy_dtype(kind.dtype)
    if array.size == 0:
        return array.astype(target)
    if not _keeps_kind(array.dtype, kind.dtype):
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            converted = array.astype(target)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"input {name!r} cannot be made {dtype_name(kind.dtype)}", why=str(error)) from error
    both_integers = array.dtype.kind in "iu" and kind.dtype.is_integer()
    if both_integers and not np.array_equal(converted.astype(array.dtype), array):
        raise InputError(f"input {name!r} has numbers that {dtype_name(kind.dtype)} cannot hold")
    return converted


def _keeps_kind(given: np.dtype[np.generic], wanted: ir.DataType) -> bool:
    if given.kind == "b":
        return wanted == ir.DataType.BOOL
    if given.kind in "iu":
        return wanted != ir.DataType.BOOL
    if given.kind == "f":
        return not wanted.is_integer() and wanted != ir.DataType.BOOL
    return given.kind == "c" and numpy_dtype(wanted).kind == "c"


def _holds_arrays(value: object) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, np.generic) or not isinstance(value, _OF_PYTHON)


def _strings(array: Array, name: str) -> Array:
    if array.dtype.kind in "UT":
        return array.astype(object)
    if array.dtype.kind == "S":
        return np.char.decode(array.astype(np.bytes_), "utf-8").astype(object)
    if array.dtype.kind == "O" and all(isinstance(item, str) for item in array.reshape(-1)):
        return array
    if array.size == 0:
        return array.astype(object)
    raise InputError(f"input {name!r} wants strings, not {array.dtype.name}", fix="pass str objects")


def _wrong_dtype(kind: TensorType, given: str, name: str) -> NoReturn:
    wanted = dtype_name(kind.dtype)
    plain = is_plain(kind)
    fix = f"{name}.astype({wanted!r})" if plain else f"{name}.astype(ml_dtypes.{wanted})"
    raise InputError(f"input {name!r} wants {wanted}, not {given}; arrays are never converted silently", fix=fix)


def _check_shape(kind: TensorType, shape: tuple[int, ...], name: str) -> None:
    if kind.shape is None:
        return
    if len(shape) != len(kind.shape):
        raise InputError(f"input {name!r} wants {len(kind.shape)} axes, not {len(shape)}", fix="reshape it")
    for axis, (size, dim) in enumerate(zip(shape, kind.shape, strict=True)):
        if isinstance(dim, int) and dim != size:
            raise InputError(f"axis {axis} of input {name!r} must have size {dim}, not {size}")


def _shape_of(feed: Feed) -> tuple[int, ...]:
    if isinstance(feed, np.ndarray):
        return feed.shape
    return tuple(feed.shape())  # type: ignore[union-attr]  # only tensors have named axes: what is no array is an OrtValue
