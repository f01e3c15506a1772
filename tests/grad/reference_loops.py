"""Operators that onnx's reference evaluator leaves incomplete, whole and in any float type: Scan with axes and
directions, Loop with scalar rows or none, sequences and optionals; RNN, GRU and LSTM are those of the host."""

from collections.abc import Callable

import numpy as np
import onnx.helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import (
    op_gru,
    op_loop,
    op_lstm,
    op_optional,
    op_rnn,
    op_scan,
    op_sequence_insert,
    op_sequence_map,
)

from onnxgrad.engine.runtime.host_recurrent import GRU, LSTM, RNN


class Scan(OpRun):
    body: ReferenceEvaluator  # OpRun makes both of the attribute
    _run_body: Callable[..., list[np.ndarray]]

    def need_context(self):
        return True

    def _run(self, *args, context=None, body=None, bindings=None, num_scan_inputs=None, **options):
        def slots(name, count):
            return [*(options.get(name) or []), *[0] * count][:count]

        first = len(args) - num_scan_inputs
        states, xs = list(args[:first]), args[first:]
        axes, turned = slots("scan_input_axes", len(xs)), slots("scan_input_directions", len(xs))
        rows = [[np.take(x, t, axis) for t in range(x.shape[axis])] for x, axis in zip(xs, axes, strict=True)]
        rows = [row[::-1] if backward else row for row, backward in zip(rows, turned, strict=True)]
        results = []
        for slices in zip(*rows, strict=True):
            feeds = {**(context or {}), **dict(zip(self.body.input_names, [*states, *slices], strict=True))}
            outputs = self._run_body(feeds, bindings=bindings)
            states = outputs[:first]
            results.append(outputs[first:])
        stacks = list(zip(*results, strict=True))
        axes, turned = slots("scan_output_axes", len(stacks)), slots("scan_output_directions", len(stacks))
        flipped = [stack[::-1] if backward else stack for stack, backward in zip(stacks, turned, strict=True)]
        return (*states, *(np.stack(stack, axis) for stack, axis in zip(flipped, axes, strict=True)))


class Loop(OpRun):
    body: ReferenceEvaluator  # OpRun makes both of the attribute
    _run_body: Callable[..., list[np.ndarray]]

    def need_context(self):
        return True

    def _run(self, limit=None, cond=None, *initial, context=None, body=None, attributes=None, bindings=None):
        names, inner = self.body.input_names, dict(context or {})
        states, turn = list(initial), 0
        rows: list[list[np.ndarray]] = [[] for _ in self.body.output_names[1 + len(states) :]]
        cond = True if cond is None else cond
        while cond and (limit is None or turn < limit):
            feeds = {**inner, names[0]: np.array(turn, np.int64), names[1]: np.array(True)}
            feeds.update(zip(names[2:], states, strict=True))
            cond, *outputs = self._run_body(feeds, attributes=attributes, bindings=bindings)
            states, made = outputs[: len(states)], outputs[len(states) :]
            for row, value in zip(rows, made, strict=True):
                row.append(value)
            turn += 1
        kinds = self.body.proto_.graph.output if hasattr(self.body.proto_, "graph") else self.body.proto_.output
        kinds = list(kinds)[len(kinds) - len(rows) :] if rows else []
        return (*states, *(np.stack(row) if row else _none(kind) for row, kind in zip(rows, kinds, strict=True)))


def _none(kind):
    """The scanned output of a loop that never ran."""
    tensor = kind.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    return np.zeros((0, *(dim.dim_value for dim in tensor.shape.dim)), dtype)


class SequenceInsert(OpRun):
    def _run(self, sequence, item, position=None):  # the evaluator's own puts at 0 what belongs at the end
        place = len(sequence) if position is None else int(position)
        place += len(sequence) if place < 0 else 0
        return ([*sequence[:place], item, *sequence[place:]],)


class SequenceMap(OpRun):
    def _run(self, sequence, *others, body=None, attributes=None):  # the evaluator's own knows one other sequence
        results: list[list[object]] = [[] for _ in body.output_names]
        for k, item in enumerate(sequence):
            items = [item, *(other[k] if isinstance(other, list) else other for other in others)]
            values = body.run(None, dict(zip(body.input_names, items, strict=True)))
            for result, value in zip(results, values, strict=True):
                result.append(value)
        return tuple(results)


class Optional(OpRun):
    def _run(self, x=None, type=None):  # the evaluator's own gives a list that OptionalGetElement does not open
        return (x,)


def _put_in_place():
    """Let the evaluator use these, also in function bodies, where it ignores operators that it is given."""
    pairs = [(RNN, op_rnn), (GRU, op_gru), (LSTM, op_lstm), (Scan, op_scan), (Loop, op_loop), (Optional, op_optional)]
    pairs += [(SequenceInsert, op_sequence_insert), (SequenceMap, op_sequence_map)]
    for mended, module in pairs:
        kept = getattr(module, f"Common{mended.__name__}", None) or getattr(module, mended.__name__)
        kept.__init__, kept._run, kept.need_context = OpRun.__init__, mended._run, mended.need_context


_put_in_place()
