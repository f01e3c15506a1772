"""A region that runs on the host: node by node, by onnx's reference implementation with our corrections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx

from onnxgrad.engine.errors import ExecutionError
from onnxgrad.engine.runtime.boxes import unbox
from onnxgrad.engine.runtime.call_signature import Feed, describe_all
from onnxgrad.engine.runtime.values import Array

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

HOST = "host"


@dataclass(frozen=True)
class HostNode:
    """One node with the versions that it is written in; `reads` names what it and its bodies take from outside."""

    node: onnx.NodeProto
    reads: tuple[str, ...]
    opsets: Mapping[str, int]


class HostRegion:
    """Nodes that run one after the other on numpy arrays. `constants`: initializers that they read."""

    providers = (HOST,)

    def __init__(
        self,
        nodes: Sequence[HostNode],
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        constants: Mapping[str, Array],
        why: str,
    ) -> None:
        self.inputs, self.outputs, self.why = inputs, outputs, why
        self._constants = dict(constants)
        self._steps = [(node, _evaluator(node)) for node in nodes]

    @property
    def op_types(self) -> tuple[str, ...]:
        """The operators of its nodes, in their order."""
        return tuple(step.node.op_type for step, _ in self._steps)

    def run(self, feeds: Mapping[str, Feed]) -> Sequence[Feed]:
        """The outputs for these inputs; raises ExecutionError with the node that failed."""
        values: dict[str, Feed] = {**self._constants, **{name: to_host(value) for name, value in feeds.items()}}
        for step, evaluator in self._steps:
            given = {name: values[name] for name in step.reads if name in values}
            try:
                results = evaluator.run(None, given)
            except Exception as error:  # foreign code raises whatever it likes
                raise _running_error(step.node, error, given) from error
            names = [name for name in step.node.output if name]
            values.update((name, from_host(value)) for name, value in zip(names, results, strict=True))
        return [values[name] for name in self.outputs]


def _evaluator(step: HostNode) -> "ReferenceEvaluator":
    from onnx.reference import ReferenceEvaluator

    from onnxgrad.engine.runtime.host_ops import corrected_operators

    graph = onnx.GraphProto(name="host")
    graph.node.append(step.node)
    graph.input.extend(onnx.ValueInfoProto(name=name) for name in step.reads)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in step.node.output if name)
    opsets = [onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in step.opsets.items()]
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph, opset_import=opsets)
    try:
        return ReferenceEvaluator(model, new_ops=corrected_operators())
    except Exception as error:  # foreign code raises whatever it likes
        raise ExecutionError(
            f"neither onnxruntime nor the host can run {step.node.domain or 'ai.onnx'}::{step.node.op_type}",
            where=f"node {step.node.name!r}",
            why=str(error).strip(),
        ) from error


def _running_error(node: onnx.NodeProto, error: Exception, given: Mapping[str, Feed]) -> ExecutionError:
    fix = ""
    if node.op_type == "ImageDecoder" and isinstance(error, ImportError):
        fix = "pip install onnxgrad[vision]"
    where = f"node {node.name!r} on the host, inputs {describe_all(given)}"
    why = str(error).strip() or type(error).__name__
    return ExecutionError(f"{node.op_type} failed", where=where, why=why, fix=fix)


def to_host(value: Feed) -> Feed:
    """What the reference implementation computes with: arrays, lists, None."""
    if value is None or isinstance(value, np.ndarray | list | dict):
        return value
    return unbox(value)


def from_host(value: object) -> Feed:
    """A result as the regions pass it on: numpy's scalars as arrays, strings as objects."""
    if value is None or isinstance(value, dict):
        return value
    if isinstance(value, list | tuple):
        return [from_host(item) for item in value]
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "UST" else array
