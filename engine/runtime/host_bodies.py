"""Loop and Scan on the host: onnx's own knows one axis and direction of Scan, and no scalar rows of Loop."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from onnxgrad.engine.runtime.values import Array


class _WithBody(OpRun):
    op_domain = ""
    body: ReferenceEvaluator  # OpRun makes both of the attribute
    _run_body: Callable[..., list[Array]]

    def need_context(self) -> bool:
        """Bodies read values of the graphs around them."""
        return True


class Scan(_WithBody):
    """The body for each slice of the scanned inputs, along any axes and in both directions."""

    def _run(
        self,
        *inputs: Array,
        context: Mapping[str, Array] | None = None,
        body: object = None,
        attributes: Mapping[str, object] | None = None,
        bindings: Mapping[str, int] | None = None,
        num_scan_inputs: int = 0,
        **options: Sequence[int] | None,
    ) -> tuple[Array, ...]:
        count = len(inputs) - num_scan_inputs
        states, scanned = list(inputs[:count]), inputs[count:]
        axes = _slots(options.get("scan_input_axes"), len(scanned))
        turned = _slots(options.get("scan_input_directions"), len(scanned))
        rows = [np.moveaxis(x, axis, 0) for x, axis in zip(scanned, axes, strict=True)]
        rows = [row[::-1] if backward else row for row, backward in zip(rows, turned, strict=True)]
        stacks: list[list[Array]] = [[] for _ in self.body.output_names[count:]]
        for slices in zip(*rows, strict=True):
            feeds = {**(context or {}), **dict(zip(self.body.input_names, [*states, *slices], strict=True))}
            outputs = self._run_body(feeds, attributes=attributes, bindings=bindings)
            states = outputs[:count]
            for stack, value in zip(stacks, outputs[count:], strict=True):
                stack.append(value)
        joined = [_join(stack, kind) for stack, kind in zip(stacks, _graph(self.body).output[count:], strict=True)]
        axes = _slots(options.get("scan_output_axes"), len(joined))
        turned = _slots(options.get("scan_output_directions"), len(joined))
        joined = [y[::-1] if backward else y for y, backward in zip(joined, turned, strict=True)]
        return (*states, *(np.moveaxis(y, 0, axis) for y, axis in zip(joined, axes, strict=True)))


class Loop(_WithBody):
    """The body until its condition is false or the trip count is reached; scanned outputs are stacked, scalars too."""

    def _run(
        self,
        limit: Array | None = None,
        condition: Array | None = None,
        *initial: Array,
        context: Mapping[str, Array] | None = None,
        body: object = None,
        attributes: Mapping[str, object] | None = None,
        bindings: Mapping[str, int] | None = None,
    ) -> tuple[Array, ...]:
        names, states, turn = self.body.input_names, list(initial), 0
        stacks: list[list[Array]] = [[] for _ in self.body.output_names[1 + len(states) :]]
        counter, flag = (_shape(value) for value in _graph(self.body).input[:2])
        going = True if condition is None else bool(condition)
        while going and (limit is None or turn < limit):
            feeds = {**(context or {}), names[0]: np.full(counter, turn, np.int64), names[1]: np.full(flag, True)}
            feeds.update(zip(names[2:], states, strict=True))
            following, *outputs = self._run_body(feeds, attributes=attributes, bindings=bindings)
            going, states = bool(following), outputs[: len(states)]
            for stack, value in zip(stacks, outputs[len(states) :], strict=True):
                stack.append(value)
            turn += 1
        kinds = _graph(self.body).output[1 + len(states) :]
        return (*states, *(_join(stack, kind) for stack, kind in zip(stacks, kinds, strict=True)))


def _slots(given: Sequence[int] | None, count: int) -> list[int]:
    return [*(given or []), *[0] * count][:count]


def _graph(body: ReferenceEvaluator) -> onnx.GraphProto:
    proto = body.proto_
    return proto.graph if isinstance(proto, onnx.ModelProto) else proto


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """() or (1,): bodies may take the number of the round and the condition as lists of one, too."""
    return (1,) * len(value.type.tensor_type.shape.dim)


def _join(rows: Sequence[Array], kind: onnx.ValueInfoProto) -> Array:
    """The rows as one array; of none, the type says which kind of nothing."""
    if rows:
        return np.stack(rows)
    tensor = kind.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return np.zeros((0, *(dim.dim_value for dim in tensor.shape.dim)), dtype)
