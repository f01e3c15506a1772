"""Operators that onnx's reference evaluator leaves incomplete: sequences and optionals, and those that the host of
og.compile has whole and in any float type."""

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

from onnxgrad.engine.runtime.host_bodies import Loop, Scan
from onnxgrad.engine.runtime.host_recurrent import GRU, LSTM, RNN


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
