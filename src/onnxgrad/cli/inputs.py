"""Inputs of a model from command line arguments: files, numbers, and random values of a shape."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnxgrad.engine.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import onnx_ir as ir

    Array = npt.NDArray[np.generic]

FORMS = "NAME=FILE.npy, NAME=NUMBER,NUMBER,... or, for random values, NAME:DIM,DIM,..."


@dataclass(frozen=True)
class Input:
    """The value of an input and where it comes from."""

    value: "Array"
    source: str


def read_inputs(
    model: "ir.Model", arguments: Sequence[str], seed: int, low: float = 0.0, size: int = 1
) -> dict[str, Input]:
    """A value for every input without a default, in the order of the model: as the arguments say, else random.

    Where an argument leaves a symbolic dim open, it has the size that another input gives it, or else `size`. Random
    floats lie between `low` and 1.
    Raises InputError for an unknown name, a form that is not understood, and an input that cannot be random.
    """
    import numpy as np

    values = {value.name or "": value for value in model.graph.inputs}
    texts: dict[str, str] = {}
    for name, text in (_match(argument, values) for argument in arguments):
        if name in texts:
            raise InputError("an input is given twice", where=describe_input(values[name]))
        texts[name] = text
    given = {name: _read_value(values[name], text[1:]) for name, text in texts.items() if text.startswith("=")}
    shapes = {name: _read_shape(values[name], text[1:]) for name, text in texts.items() if text.startswith(":")}
    sizes: dict[str, int] = {}
    for name, shape in [*((name, source.value.shape) for name, source in given.items()), *shapes.items()]:
        sizes.update(_symbol_sizes(values[name], shape))
    random = np.random.default_rng(seed)
    inputs: dict[str, Input] = {}
    for name, value in values.items():
        if name in given:
            inputs[name] = given[name]
        elif name in shapes or not value.is_initializer():
            shape = shapes[name] if name in shapes else _default_shape(value, sizes, size)
            inputs[name] = Input(_random_values(value, shape, random, low), "random")
    return inputs


def describe_input(value: "ir.Value") -> str:
    """`name: dtype[dims]`, as error messages show an input."""
    from onnxgrad.engine.runtime.call_signature import dtype_name

    dims = "..." if value.shape is None else ", ".join(_dim_text(dim) for dim in value.shape)
    return f"{value.name}: {dtype_name(value.dtype) if value.dtype else value.type}[{dims}]"


def _dim_text(dim: "int | ir.SymbolicDim") -> str:
    return str(dim) if isinstance(dim, int) else dim.value or "?"


def _match(argument: str, values: "dict[str, ir.Value]") -> tuple[str, str]:
    """Split an argument after the name of an input: names may hold `:` and `=`, so the longest one that fits counts."""
    fitting = [name for name in values if argument.startswith((f"{name}=", f"{name}:"))]
    if not fitting:
        known = "; ".join(describe_input(value) for value in values.values()) or "none"
        raise InputError(
            f"{argument!r} does not begin with an input of the model", why=f"its inputs are {known}", fix=FORMS
        )
    name = max(fitting, key=len)
    return name, argument.removeprefix(name)


def _read_value(value: "ir.Value", text: str) -> Input:
    import numpy as np

    if text.endswith(".npy"):
        try:
            return Input(np.load(Path(text).expanduser(), allow_pickle=False), text)
        except (OSError, ValueError, EOFError) as error:
            raise InputError(
                f"{text} cannot be read as an array", where=describe_input(value), why=str(error)
            ) from error
    parts = text.split(",")
    try:
        numbers = [_read_number(value.dtype, part) for part in parts]
        return Input(np.array(numbers if len(parts) > 1 else numbers[0], _numpy_dtype(value.dtype)), "given")
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{text!r} is no value of this input", where=describe_input(value), why=str(error), fix=FORMS
        ) from error


def _read_number(dtype: "ir.DataType | None", text: str) -> str | int | float | bool:
    if dtype is None or dtype.is_string():
        return text
    if dtype.name == "BOOL":
        return bool(("false", "true").index(text.lower())) if text.isalpha() else bool(int(text))
    return int(text) if dtype.is_integer() else float(text)


def _numpy_dtype(dtype: "ir.DataType | None") -> "np.dtype[np.generic]":
    import numpy as np

    return np.dtype(object) if dtype is None or dtype.is_string() else dtype.numpy()


def _read_shape(value: "ir.Value", text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"(\d+(,\d+)*)?", text):
        raise InputError(f"{text!r} is not a shape", where=describe_input(value), fix=FORMS)
    return tuple(int(dim) for dim in text.split(",")) if text else ()


def _symbol_sizes(value: "ir.Value", shape: Sequence[int]) -> Iterator[tuple[str, int]]:
    if value.shape is not None:
        for dim, size in zip(value.shape, shape, strict=False):
            if not isinstance(dim, int) and dim.value is not None:
                yield dim.value, size


def _default_shape(value: "ir.Value", sizes: dict[str, int], size: int) -> tuple[int, ...]:
    if value.shape is None:
        raise InputError("the rank of an input is not known", where=describe_input(value), fix=f"give it: {FORMS}")
    return tuple(dim if isinstance(dim, int) else sizes.get(str(dim), size) for dim in value.shape)


def _random_values(value: "ir.Value", shape: Sequence[int], random: "np.random.Generator", low: float) -> "Array":
    """Floats from `low` to 1; integers 0 and 1, which are legal indices and masks."""
    import onnx_ir as ir

    dtype = value.dtype
    if dtype is None or dtype.is_string() or not isinstance(value.type, ir.TensorType):
        raise InputError("an input of this type cannot be random", where=describe_input(value), fix=f"give it: {FORMS}")
    if dtype.is_floating_point() or dtype in (ir.DataType.COMPLEX64, ir.DataType.COMPLEX128):
        return (low + (1 - low) * random.random(shape)).astype(dtype.numpy())
    return random.integers(0, 2, shape).astype(dtype.numpy())
