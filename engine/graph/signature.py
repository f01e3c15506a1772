"""What the ONNX specification says of an operator: parameters, attributes, outputs, and types of literals."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile

import numpy as np
import onnx_ir as ir
from onnx import AttributeProto, defs, helper

from onnxgrad.engine.errors import InputError, OptionError

OPSET = 26
"""The opset of the specification that functions of `og.op` follow: the newest that the stock runtime loads."""

VERSIONS: Mapping[str, int] = {"": OPSET, "ai.onnx.ml": 5}
_FORMAL = defs.OpSchema.FormalParameterOption
_TYPES: Mapping[str, ir.DataType] = {
    "tensor(float)": ir.DataType.FLOAT,
    "tensor(double)": ir.DataType.DOUBLE,
    **{
        f"tensor({kind.name.lower()})": kind
        for kind in ir.DataType
        if kind.name not in ("FLOAT", "DOUBLE", "UNDEFINED")
    },
}


@dataclass(frozen=True)
class Parameter:
    """An input of an operator. `type_name`: inputs of one name have one type; `types`: what it may be."""

    name: str
    type_name: str
    types: frozenset[ir.DataType]
    required: bool
    variadic: bool
    alike: bool  # a variadic input whose values have one type


@dataclass(frozen=True)
class Attribute:
    """An attribute of an operator; `default` is None where there is none."""

    name: str
    kind: ir.AttributeType
    required: bool
    default: object
    doc: str


@dataclass(frozen=True)
class Signature:
    """An operator of the specification, in the opset `since` or later. `required`: so many inputs must be there."""

    domain: str
    op_type: str
    since: int
    doc: str
    parameters: tuple[Parameter, ...]
    attributes: Mapping[str, Attribute]
    output_names: tuple[str, ...]
    outputs: tuple[int, int]
    required: int

    def number_of_outputs(self, inputs: Sequence[object], attributes: Mapping[str, object]) -> int:
        """How many outputs a call has that does not say it: the required ones, or all where none is required."""
        if self.op_type == "Split":
            return _parts_of_split(inputs, attributes)
        least, most = self.outputs
        return least or min(most, len(self.output_names))

    def check_inputs(self, inputs: Sequence[object]) -> None:
        """Raises: InputError for an input that is missing."""
        for index in range(self.required):
            if index >= len(inputs) or inputs[index] is None:
                raise InputError(f"{self.op_type} needs the input {self.parameters[index].name!r}")

    def check(self, attributes: Mapping[str, object], outputs: int | None) -> dict[str, object]:
        """The attributes of a call as they must be.

        Raises: OptionError for an attribute of another kind, or outputs that the operator does not have.
        """
        if outputs is not None and not 1 <= outputs <= self.outputs[1]:
            raise OptionError(f"{self.op_type} has up to {self.outputs[1]} outputs, not {outputs}")
        known = self.attributes
        return {n: attribute_value(known[n], value) if n in known else value for n, value in attributes.items()}

    def parameter(self, index: int) -> Parameter:
        """The parameter of the input at `index`. Raises: InputError for one too many."""
        if index < len(self.parameters):
            return self.parameters[index]
        if self.parameters and self.parameters[-1].variadic:
            return self.parameters[-1]
        names = ", ".join(parameter.name for parameter in self.parameters) or "none"
        raise InputError(
            f"{self.op_type} takes {len(self.parameters)} inputs, not {index + 1}", why=f"they are: {names}"
        )


def _parts_of_split(inputs: Sequence[object], attributes: Mapping[str, object]) -> int:
    parts = attributes.get("num_outputs")
    if isinstance(parts, int):
        return parts
    sizes = inputs[1] if len(inputs) > 1 else None
    if isinstance(sizes, list | tuple | np.ndarray):
        return len(sizes)
    raise OptionError(
        "the number of parts of a Split is not known", fix="give num_outputs=, a list as split, or outputs="
    )


@cache
def signature_of(op_type: str, domain: str = "") -> Signature:
    """The signature of a standard operator. Raises: OptionError for a name that is none."""
    version = VERSIONS.get(domain, OPSET)
    try:
        schema = defs.get_schema(op_type, version, domain)
    except defs.SchemaError as error:
        where = f"{domain or 'ai.onnx'}, opset {version}"
        raise OptionError(f"there is no operator {op_type!r}", where=where, fix="og.op.custom(...)") from error
    parameters = tuple(_parameter(formal) for formal in schema.inputs)
    attributes = {name: _attribute(attribute) for name, attribute in schema.attributes.items()}
    return Signature(
        domain,
        op_type,
        schema.since_version,
        schema.doc or "",
        parameters,
        dict(sorted(attributes.items(), key=lambda item: not item[1].required)),
        tuple(formal.name for formal in schema.outputs),
        (schema.min_output, schema.max_output),
        sum(1 for _ in takewhile(lambda parameter: parameter.required, parameters)),
    )


@cache
def operators() -> Mapping[str, str]:
    """The names of all standard operators that are not deprecated, with their domains."""
    found: dict[str, str] = {}
    for name, domain in sorted({(schema.name, schema.domain) for schema in defs.get_all_schemas_with_history()}):
        is_known = domain in VERSIONS and defs.has(name, VERSIONS[domain], domain)
        if is_known and not defs.get_schema(name, VERSIONS[domain], domain).deprecated:
            found.setdefault(name, domain)
    return found


def _parameter(formal: defs.OpSchema.FormalParameter) -> Parameter:
    types = frozenset(_TYPES[name] for name in formal.types if name in _TYPES)
    variadic = formal.option == _FORMAL.Variadic
    return Parameter(
        formal.name,
        formal.type_str,
        types,
        formal.option == _FORMAL.Single or (variadic and formal.min_arity > 0),
        variadic,
        formal.is_homogeneous,
    )


def _attribute(attribute: defs.OpSchema.Attribute) -> Attribute:
    kind = ir.AttributeType(int(attribute.type.value))  # type: ignore[attr-defined]  # a pybind enum
    default: object = None
    if attribute.default_value.type != AttributeProto.UNDEFINED:
        value = helper.get_attribute_value(attribute.default_value)
        default = value.decode() if isinstance(value, bytes) else value
        if isinstance(value, list | tuple):
            default = [entry.decode() if isinstance(entry, bytes) else entry for entry in value]
    return Attribute(attribute.name, kind, attribute.required, default, attribute.description)


_REAL = {kind: kind.numpy() for kind in (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)}


def literal(value: object, parameter: Parameter | None, known: Mapping[str, ir.DataType]) -> np.ndarray:
    """A Python number, list or array as the array that an operator takes for `parameter`.

    An array keeps its dtype. A literal, also a scalar of numpy, takes the type of the operands that the specification
    wants alike (`known`, by type name); else the only type that is allowed, else int64, float32, bool.

    Raises: InputError where that would change a value: 1.5 for an int64.
    """
    if type(value) is float and parameter is not None:
        dtype = _REAL.get(known.get(parameter.type_name, ir.DataType.UNDEFINED))
        if dtype is not None:  # what most literals are
            return np.array(value, dtype)
    if isinstance(value, np.ndarray):
        return value
    wanted = None if parameter is None else known.get(parameter.type_name)
    if isinstance(value, np.generic) and wanted is None:
        return np.asarray(value)
    array = as_array(value)
    if wanted is None and parameter is not None and len(parameter.types) == 1:
        (wanted,) = parameter.types
    if array.dtype.kind in "US" and wanted is None:
        return array.astype(object)
    if wanted is None:
        natural = {"f": np.float32, "i": np.int64, "b": np.bool_}.get(array.dtype.kind)
        return array if natural is None else array.astype(natural)
    return as_type(array, wanted, "" if parameter is None else parameter.name)


def as_type(array: np.ndarray, wanted: ir.DataType, name: str = "") -> np.ndarray:
    """`array` as elements of another type. Raises: InputError where a kind of number would change its value."""
    is_text = array.dtype.kind in "OSUT"
    if is_text and wanted == ir.DataType.STRING:
        return array.astype(object)
    result = None if is_text or wanted == ir.DataType.STRING else array.astype(wanted.numpy())
    integral = wanted.is_integer() or wanted == ir.DataType.BOOL
    if result is None or (integral and array.size and not _same_numbers(result, array)):
        raise InputError(
            f"{array.tolist()!r} is no {wanted.name.lower()}",
            where=f"input {name!r}" if name else "",
            fix="cast the other operand, or give a number that it can hold",
        )
    return result


def _same_numbers(result: np.ndarray, array: np.ndarray) -> bool:
    return np.array_equal(result.astype(array.dtype), array) and np.array_equal(result < 0, array < 0)


def as_array(value: object) -> np.ndarray:
    """Numbers or strings as an array. Raises: InputError for what is neither, or lists of several lengths."""
    try:
        array = np.asarray(value)
        if array.dtype != object or all(isinstance(entry, str) for entry in array.flat):
            return array
        return array.astype(np.float64)  # ints beyond 64 bits
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{value!r} is no number, and no array of them", why=str(error)) from error


def whole_numbers(given: object, what: str) -> list[int]:
    """An int, or ints in lists and arrays, in a row. Raises: InputError for anything else, which is no `what`."""
    if isinstance(given, list | tuple):
        return [number for entry in given for number in whole_numbers(entry, what)]
    if isinstance(given, np.ndarray) and given.ndim:
        return whole_numbers(given.tolist(), what)
    try:
        return [operator.index(given)]  # type: ignore[arg-type]  # that is the question
    except TypeError as error:
        raise InputError(f"{given!r} is no {what}", fix="whole numbers, or one operand for all") from error


def attribute_value(formal: Attribute, value: object) -> object:
    """What a program gives for an attribute, as the specification wants it: numpy's numbers and arrays as Python's.

    Raises: OptionError for another kind of value.
    """
    if formal.kind not in _CONVERTED:
        return value
    convert, wanted = _CONVERTED[formal.kind]
    try:
        return convert(value)
    except (TypeError, ValueError) as error:
        raise OptionError(f"attribute {formal.name!r} cannot be {value!r}", fix=f"give {wanted}") from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _entries(convert: Callable[[object], object]) -> Callable[[object], object]:
    def converted(value: object) -> object:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise TypeError(value)
        return [convert(entry) for entry in value]

    return converted


def _real(value: object) -> float:
    if isinstance(value, str):
        raise TypeError(value)
    return float(value)  # type: ignore[arg-type]  # raises TypeError


def _tensor(value: object) -> ir.TensorProtocol:
    return ir.tensor(value) if isinstance(value, np.ndarray) else _is_tensor(value)


def _is_tensor(value: object) -> ir.TensorProtocol:
    if not isinstance(value, ir.TensorProtocol):
        raise TypeError(value)
    return value


_KINDS = ir.AttributeType
_CONVERTED: Mapping[ir.AttributeType, tuple[Callable[[object], object], str]] = {
    _KINDS.INT: (operator.index, "a whole number"),  # type: ignore[dict-item]  # raises TypeError
    _KINDS.FLOAT: (_real, "a number"),
    _KINDS.STRING: (_text, "a string"),
    _KINDS.INTS: (_entries(operator.index), "a list of whole numbers"),  # type: ignore[arg-type]
    _KINDS.FLOATS: (_entries(_real), "a list of numbers"),
    _KINDS.STRINGS: (_entries(_text), "a list of strings"),
    _KINDS.TENSOR: (_tensor, "an array"),
}
