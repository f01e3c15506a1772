"""What an operator will give, before it runs: types, shapes, devices, memory; and running it into given memory."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import InputError, ShapeError
from onnxgrad.engine.graph.operand import Call, Dim
from onnxgrad.engine.graph.signature import operators, signature_of
from onnxgrad.engine.ir.builder import describe
from onnxgrad.engine.runtime.direct import raw_empty
from onnxgrad.engine.runtime.providers import Device
from onnxgrad.grad.tape.kernels import find_kernel
from onnxgrad.grad.tape.one_node import OneNode, Spec, one_node
from onnxgrad.grad.tape.payload import HOST, DeviceLike, device_named
from onnxgrad.grad.tape.tensor import Tensor, gather

_LOG = logging.getLogger(__name__)
_SMALL = 1024  # elements of an input that an output's shape may depend on


@dataclass
class Description:
    """A tensor that need not exist: dtype, shape (None: unknown; a size may be None), device, and elements if known."""

    dtype: ir.DataType
    shape: tuple[Dim, ...] | None = None
    device: Device = HOST
    value: np.ndarray | None = None

    def static_value(self, may_sync: bool = True) -> np.ndarray | None:
        """The elements, if they are known."""
        return self.value


@dataclass
class Placed(Description):
    """The description of a tensor that exists. Its elements are read when they are asked for, and kept."""

    tensor: Tensor | None = field(default=None, repr=False)

    def static_value(self, may_sync: bool = True) -> np.ndarray | None:
        """The elements; of a tensor on a device only where it may be waited for."""
        if self.value is None and self.tensor is not None and (may_sync or self.device == HOST):
            self.value = self.tensor.numpy()
        return self.value


Input = Tensor | Description | np.ndarray | None


def described(value: Input) -> Description | None:
    """A tensor or literal as a Description."""
    if isinstance(value, Tensor):
        kind = value.element_type
        assert kind is not None
        return Placed(kind, value.shape, value.device, tensor=value)
    if isinstance(value, np.ndarray):
        return Description(ir.DataType.from_numpy(value.dtype), value.shape, HOST, value)
    return value


def output_count(
    op_type: str, inputs: Sequence[Input], attributes: Mapping[str, object] | None = None, domain: str = ""
) -> int:
    """How many outputs an operator of the standard gives for these inputs."""
    given = [value.value if isinstance(value, Description) else value for value in inputs]
    return signature_of(op_type, domain).number_of_outputs(given, attributes or {})


def infer_output_attrs(
    op_type: str,
    inputs: Sequence[Input],
    attributes: Mapping[str, object] | None = None,
    outputs: int | None = None,
    domain: str = "",
) -> list[Description]:
    """Dtype, shape and device of each output; elements of small inputs are read for it, also from a device.

    Raises: ShapeError where operands do not fit, or where a shape depends on elements that are not known.
    """
    made, descriptions = _infer(op_type, inputs, attributes, outputs, domain, may_sync=True)
    for index, found in enumerate(descriptions):
        if found.shape is None or not all(isinstance(size, int) for size in found.shape):
            where = describe(made.node) if made is not None and made.node is not None else op_type
            raise ShapeError(f"failed to infer the shape of output {index} of {op_type}", where=where)
    return descriptions


def infer_output_attrs_fallible(
    op_type: str,
    inputs: Sequence[Input],
    attributes: Mapping[str, object] | None = None,
    outputs: int | None = None,
    domain: str = "",
) -> tuple[list[Description], bool]:
    """What is known of the outputs without waiting for a device, and whether that settles that the call is right.

    Sizes that are not known are None, as are shapes. A Reshape is never settled: that its sizes agree is checked when
    it runs.
    """
    try:
        _, found = _infer(op_type, inputs, attributes, outputs, domain, may_sync=False)
    except ShapeError as error:
        _LOG.warning("something is missing for shape inference of %s: %s", op_type, error.why or error.what)
        count = outputs if outputs is not None else output_count(op_type, inputs, attributes, domain)
        return [Description(ir.DataType.UNDEFINED) for _ in range(count)], False
    given = [entry for value in inputs if (entry := described(value)) is not None]
    known = all(
        entry.shape is not None and all(isinstance(size, int) for size in entry.shape) for entry in (*given, *found)
    )
    return found, known and op_type != "Reshape"


def _infer(
    op_type: str,
    inputs: Sequence[Input],
    attributes: Mapping[str, object] | None,
    outputs: int | None,
    domain: str,
    may_sync: bool,
) -> tuple[OneNode | None, list[Description]]:
    given = [described(value) for value in inputs]
    count = outputs if outputs is not None else output_count(op_type, inputs, attributes, domain)
    specs = [None if entry is None else _spec(entry, may_sync) for entry in given]
    made = one_node(op_type, domain, attributes or {}, count, specs)
    device = next((entry.device for entry in given if entry is not None and entry.device != HOST), HOST)
    return made, [_describe_output(value, device) for value in made.outputs]


def _spec(entry: Description, may_sync: bool) -> Spec:
    dims = entry.shape
    small = dims is not None and math.prod(size if isinstance(size, int) else _SMALL + 1 for size in dims) <= _SMALL
    integral = entry.dtype.is_integer() or entry.dtype == ir.DataType.BOOL
    value = entry.static_value(may_sync) if small and integral else None
    return Spec(entry.dtype, dims, value)


def _describe_output(value: ir.Value, device: Device) -> Description:
    dims = None if value.shape is None else tuple(dim if isinstance(dim, int) else None for dim in value.shape)
    return Description(value.dtype or ir.DataType.UNDEFINED, dims, device)


@dataclass(frozen=True)
class MemoryNeed:
    """Memory that an output wants; `number` tells those of one call apart."""

    number: int
    dtype: ir.DataType
    shape: tuple[int, ...]
    device: Device

    @property
    def size(self) -> int:
        """In bytes."""
        return -(-math.prod(self.shape) * self.dtype.bitwidth // 8)


def infer_output_mem_desc(
    op_type: str,
    inputs: Sequence[Input],
    attributes: Mapping[str, object] | None = None,
    outputs: int | None = None,
    domain: str = "",
) -> tuple[list[MemoryNeed], list[MemoryNeed]]:
    """The memory of outputs, numbered from 1, and that of workspaces, which onnxruntime takes and gives back itself.

    Raises: as `infer_output_attrs`.
    """
    numbers = itertools.count(1)
    found = infer_output_attrs(op_type, inputs, attributes, outputs, domain)
    return [
        MemoryNeed(
            next(numbers), entry.dtype, tuple(int(size) for size in entry.shape or () if size is not None), entry.device
        )
        for entry in found
    ], []


def empty(shape: Sequence[int], dtype: ir.DataType, device: DeviceLike = HOST) -> Tensor:
    """A tensor whose elements are not set, to run an operator into."""
    place = device_named(device)
    return Tensor._of(raw_empty(list(shape), dtype, place), place)


def invoke_op(
    op_type: str,
    inputs: Sequence[Tensor | np.ndarray | None],
    outputs: Sequence[Tensor],
    attributes: Mapping[str, object] | None = None,
    domain: str = "",
) -> None:
    """Run an operator and write what it gives into the memory of `outputs`, which must fit exactly.

    Raises: InputError for another number, dtype, shape or device than the operator gives. Nothing is recorded.
    """
    standard = operators().get(op_type) == domain
    wanted = infer_output_attrs(op_type, inputs, attributes, None if standard else len(outputs), domain)
    if len(outputs) != len(wanted):
        raise InputError(f"{op_type} gives {len(wanted)} outputs, memory is given for {len(outputs)}")
    for index, (output, entry) in enumerate(zip(outputs, wanted, strict=True)):
        given = (output.element_type, output.shape, output.device)
        if given != (entry.dtype, entry.shape, entry.device):
            raise InputError(
                f"output {index} of {op_type} is {entry.dtype.name}{list(entry.shape or ())} on {entry.device.kind}",
                where=f"the memory is for {given[0]}{list(given[1] or ())} on {output.device.kind}",
            )
    call = Call(op_type, tuple(inputs), attributes or {}, len(outputs), domain)
    values, codes, device = gather(call)
    kernel = find_kernel(op_type, domain, call.attributes, len(outputs), codes, values, device)
    kernel.run_into(values, [output._concrete() for output in outputs])
