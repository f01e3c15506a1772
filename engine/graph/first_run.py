"""What the first run of a function verifies: nothing changes that should not, and the optimized model is right."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

import numpy as np

from onnxgrad.engine.compare import differences
from onnxgrad.engine.errors import EquivalenceError, GraphError
from onnxgrad.engine.graph.lowering import Lowered
from onnxgrad.engine.passes.purity import is_pure
from onnxgrad.engine.runtime.assemble import SessionOptions, assemble
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.source import read_source
from onnxgrad.engine.runtime.values import Array, to_numpy

Values = Mapping[str, Feed]


class FirstRun:
    """Checks around one run. `sums`: parameters and inputs that it reads must hold afterwards what they held before;
    on the CPU only, elsewhere nothing could be read without a copy. `plain`: the model as it was written, whose results
    must be the same up to rounding, unless it draws random numbers.
    """

    def __init__(self, lowered: Lowered, sums: bool, plain: Lowered | None) -> None:
        self._lowered, self._sums, self._plain = lowered, sums, plain

    def run(self, run: Callable[[], dict[str, Feed]], read: Values, written: Values) -> dict[str, Feed]:
        """The results of `run`, which reads and writes these values.

        Raises: GraphError for a value that has changed, EquivalenceError for results that differ.
        """
        before = _checksums(read) if self._sums else {}
        expected = {} if self._plain is None else _run_plain(self._plain, read)
        values = run()
        for name, number in (_checksums(read) if self._sums else {}).items():
            if before[name] != number:
                raise GraphError(
                    f"{name!r} was modified while a function ran that only reads it",
                    why="another thread wrote to its memory, or a kernel did",
                    fix="og.add_update to write; graph.set_option('var_sanity_check_first_run', 0) to allow it",
                )
        if self._plain is not None:
            self._compare(self._plain, expected, {**written, **values})
        return values

    def _compare(self, plain: Lowered, expected: Values, found: Values) -> None:
        names = list(zip(plain.targets, self._lowered.targets, strict=True))
        names += [(plain.updates[name], output) for name, output in self._lowered.updates.items()]
        want = {new: _array(expected[old]) for old, new in names if new in found}
        wrong = differences(want, {name: _array(found[name]) for name in want}, 0)
        if wrong:
            raise EquivalenceError(
                "The optimized graph gives other values than the graph as it was written.",
                where="; ".join(map(str, wrong[:3])),
                fix="graph.set_option('graph_opt_level', 0), and please report this",
            )


def is_random(lowered: Lowered) -> bool:
    """Whether two runs of a model may differ."""
    model = lowered.model
    return not all(is_pure(node, model.functions) for node in model.graph.all_nodes())


def _run_plain(plain: Lowered, read: Values) -> Values:
    source = read_source(plain.model)
    plan, _ = assemble(source, plain.model, None, SessionOptions("cpu", None, "none"))
    names = {port.name for port in source.signature.inputs}
    return plan.run({name: _array(value) for name, value in read.items() if name in names})


def _checksums(values: Values) -> dict[str, int]:
    found = {}
    for name, value in values.items():
        if not isinstance(value, np.ndarray) and (isinstance(value, list | dict) or value is None):
            continue
        if not isinstance(value, np.ndarray) and value.device_name() != "cpu":
            continue
        array = _array(value)
        if array.dtype != object:
            found[name] = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found


def _array(value: Feed) -> Array:
    if isinstance(value, np.ndarray):
        return value
    assert value is not None and not isinstance(value, list | dict)
    return to_numpy(value)
