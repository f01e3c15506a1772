"""Time per node, from the profile that onnxruntime writes: sessions made for it run a few times."""

import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from onnxgrad.engine.errors import ExecutionError, OptionError
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.host import HostRegion
from onnxgrad.engine.runtime.plan import Plan, SessionRegion

_SHOWN = 25
_SUFFIX = "ExecutionProvider"
_Times = dict[tuple[str, str, str], list[float]]


@dataclass(frozen=True)
class NodeTime:
    """A node as it runs, after onnxruntime's optimizer: its calls in all runs, and microseconds of one run."""

    name: str
    op_type: str
    runs_on: str
    calls: int
    microseconds: float


@dataclass(frozen=True)
class Profile:
    """Where the time of a call goes, the slowest node first. `str()` gives a table, `to_dict()` what JSON can hold.

    milliseconds: of one run, with the profiler on, which costs some microseconds a node.
    """

    nodes: tuple[NodeTime, ...]
    runs: int
    milliseconds: float

    @property
    def by_op_type(self) -> dict[str, float]:
        """Microseconds of one run by operator, most first."""
        sums: dict[str, float] = defaultdict(float)
        for node in self.nodes:
            sums[node.op_type] += node.microseconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def to_dict(self) -> dict[str, object]:
        """The same in dicts and lists."""
        nodes = [asdict(node) for node in self.nodes]
        return {"runs": self.runs, "milliseconds": self.milliseconds, "by_op_type": self.by_op_type, "nodes": nodes}

    def __str__(self) -> str:
        total = sum(node.microseconds for node in self.nodes) or 1.0
        lines = [
            f"{self.milliseconds:.3f} ms a run ({self.runs} runs), {total / 1e3:.3f} ms in {len(self.nodes)} nodes"
        ]
        lines.append(f"{'share':>6}{'us':>11}  operator")
        lines += [f"{spent / total:>6.1%}{spent:>11.1f}  {op_type}" for op_type, spent in self.by_op_type.items()]
        lines.append(f"{'share':>6}{'us':>11}{'calls':>7}  {'on':<6}node")
        for node in self.nodes[:_SHOWN]:
            start = f"{node.microseconds / total:>6.1%}{node.microseconds:>11.1f}{node.calls:>7}"
            lines.append(f"{start}  {node.runs_on.removesuffix(_SUFFIX):<6}{node.op_type} {node.name}")
        if len(self.nodes) > _SHOWN:
            lines.append(f"and {len(self.nodes) - _SHOWN} nodes more")
        return "\n".join(lines)


def profile_plan(make: Callable[[str], Plan], feeds: Mapping[str, Feed], runs: int) -> Profile:
    """The profile of `runs` runs after one to warm up; `make` gives a plan that writes profiles to paths that begin so.

    Raises: OptionError for runs < 1, ExecutionError when a node fails.
    """
    if runs < 1:
        raise OptionError(f"runs={runs} is not possible", fix="a number from 1 on")
    with tempfile.TemporaryDirectory(prefix="onnxgrad-profile-") as folder:
        return _measure(make(str(Path(folder, "profile"))), feeds, runs)


def _measure(plan: Plan, feeds: Mapping[str, Feed], runs: int) -> Profile:
    _run(plan, feeds)
    host: dict[int, float] = defaultdict(float)
    start = time.perf_counter()
    for _ in range(runs):
        for index, seconds in enumerate(_run(plan, feeds)):
            host[index] += seconds
    elapsed = time.perf_counter() - start
    times: _Times = defaultdict(list)
    for index, region in enumerate(plan.regions):
        if isinstance(region, SessionRegion):
            _collect(_read_events(Path(region.session.ort.end_profiling())), times)
        elif isinstance(region, HostRegion):
            times[f"region {index + 1}", "+".join(region.op_types), *region.providers] = [host[index] * 1e6]
    nodes = [NodeTime(*key, calls=len(spent), microseconds=sum(spent) / runs) for key, spent in times.items()]
    nodes.sort(key=lambda node: -node.microseconds)
    return Profile(tuple(nodes), runs, elapsed / runs * 1e3)


def _run(plan: Plan, feeds: Mapping[str, Feed]) -> list[float]:
    """Run all regions once; the seconds of each."""
    values: dict[str, Feed] = {**plan.constants, **feeds}
    seconds = []
    for region in plan.regions:
        given = {name: values[name] for name in region.inputs if name in values}
        start = time.perf_counter()
        results = region.run(given)
        seconds.append(time.perf_counter() - start)
        values.update(zip(region.outputs, results, strict=True))
    return seconds


def _read_events(path: Path) -> list[dict[str, object]]:
    try:
        events: list[dict[str, object]] = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ExecutionError("onnxruntime's profile cannot be read", where=str(path), why=str(error)) from error
    return events


def _collect(events: Iterable[Mapping[str, object]], times: _Times) -> None:
    """Add the microseconds of each node, in the runs after the first, to `times`."""
    found = list(events)
    first = min((event for event in found if event["name"] == "model_run"), key=_start, default=None)
    begin = _start(first) + _duration(first) if first is not None else 0.0
    for event in found:
        if event.get("cat") == "Node" and str(event["name"]).endswith("_kernel_time") and _start(event) >= begin:
            details = event["args"]
            assert isinstance(details, dict)
            name = str(event["name"]).removesuffix("_kernel_time")
            times[name, str(details["op_name"]), str(details["provider"])].append(_duration(event))


def _start(event: Mapping[str, object]) -> float:
    return float(str(event["ts"]))


def _duration(event: Mapping[str, object]) -> float:
    return float(str(event["dur"]))
