"""Everything that only a GPU can show, in one run of a few minutes.

    python benchmarks/device_check.py [--small] [--json] [FILE ...]

Checks, each on its own: that CUDA is there; that every node of the nets and of the model files runs on it; that outputs
agree with those of the CPU; that training steps of four nets follow those of the CPU, and how long they take; that
bound arrays, values left on the device and tensors of other libraries give the same; that CUDA graphs do. Files are
ONNX models, such as those of the catalog that were pulled before. Where there is no GPU, the same checks run on the CPU
with small nets where that means something, and the others are named as skipped. Exits with 1 when a check fails.
"""

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a file, benchmarks is no package yet

import onnxgrad as og
from benchmarks.nets import batch as batch_of
from benchmarks.nets import bert, lstm, mlp, resnet
from onnxgrad.cli.inputs import read_inputs
from onnxgrad.engine.compile import CompiledFunction
from onnxgrad.engine.runtime.call_signature import Feed
from onnxgrad.engine.runtime.providers import why_not_cuda
from onnxgrad.engine.runtime.values import to_numpy
from onnxgrad.models import catalog

Array = npt.NDArray[np.generic]
Model = onnx.ModelProto | Path
Feeds = dict[str, Feed]
Check = Callable[[], str]

TOLERANCE = 1e-3  # of float32 with TF32 off, relative to the largest output: sums in another order, over whole models
STEPS = 6


@dataclass(frozen=True)
class Outcome:
    """A check: "passed", "failed" or "skipped", with figures or the reason."""

    name: str
    status: str
    detail: str
    seconds: float


class Skip(Exception):
    """Raised by a check that means nothing here."""


@dataclass(frozen=True)
class Setting:
    """What is checked, and on what."""

    cuda: bool
    nets: dict[str, onnx.ModelProto]
    files: tuple[Path, ...]
    rows: int | None

    def compile(self, model: Model, **options: bool) -> CompiledFunction:
        """The model on the GPU, without TF32; on the CPU where there is no GPU."""
        return og.compile(model, providers=[("cuda", {"tf32": False, **options})] if self.cuda else "cpu")

    def need_cuda(self) -> None:
        """Raises Skip where there is no GPU."""
        if not self.cuda:
            raise Skip(why_not_cuda())

    def batch(self, name: str) -> tuple[Array, Array]:
        """Inputs and labels for a net."""
        return batch_of(name, self.nets[name], self.rows)

    def models(self) -> Iterator[tuple[str, Model, Feeds]]:
        """Nets and files, with inputs."""
        for name, model in self.nets.items():
            yield name, model, {"x": self.batch(name)[0]}
        for path in self.files:
            yield path.name, path, {name: given.value for name, given in read_inputs(og.load(path), (), 0).items()}


def check_cuda(setting: Setting) -> str:
    """CUDA works."""
    setting.need_cuda()
    return "a session runs on it"


def check_placement(setting: Setting, name: str, model: Model, feeds: Feeds) -> str:
    """Where the nodes run. Nodes that compute shapes belong on the CPU; most of the time must be spent on the GPU."""
    setting.need_cuda()
    run = setting.compile(model)
    nodes = run.profile(feeds, runs=2).nodes
    elsewhere = sorted({node.op_type for node in nodes if "CUDA" not in node.runs_on})
    spent = sum(node.microseconds for node in nodes if "CUDA" in node.runs_on) / sum(
        node.microseconds for node in nodes
    )
    where = "; ".join(f"{'+'.join(region.runs_on)}: {region.node_count}" for region in run.explain().regions)
    detail = f"{where}; {spent:.0%} of the time on CUDA; on the CPU: {', '.join(elsewhere) or 'nothing'}"
    if name in setting.nets and spent < 0.5:
        raise AssertionError(detail)
    return detail


def check_agreement(setting: Setting, name: str, model: Model, feeds: Feeds) -> str:
    """The outputs are those of the CPU."""
    setting.need_cuda()
    return _compare(og.compile(model, providers="cpu")(feeds), setting.compile(model)(feeds))


def check_training(setting: Setting, name: str) -> str:
    """The losses of some steps are those of the CPU, and fall."""
    x, labels = setting.batch(name)
    curves, milliseconds = [], 0.0
    for provider in ("cpu", ("cuda", {"tf32": False})) if setting.cuda else ("cpu", "cpu"):
        trainer = og.Trainer(
            setting.nets[name],
            loss=og.losses.CrossEntropy(),
            optimizer=og.optimizers.AdamW(1e-4),
            providers=provider,
        )
        times, losses = [], []
        for _ in range(STEPS):
            start = time.perf_counter()
            losses.append(float(trainer.train_step(x, labels)))
            times.append(time.perf_counter() - start)
        curves.append(losses)
        milliseconds = float(np.median(times[1:])) * 1e3
    apart = max(abs(a - b) / max(abs(a), 1e-2) for a, b in zip(*curves, strict=True))
    detail = f"{milliseconds:.2f} ms a step, loss {curves[1][0]:.3f} -> {curves[1][-1]:.3f}, {apart:.0e} apart"
    if apart > 1e-2 or not curves[1][-1] < curves[1][0]:
        raise AssertionError(f"{detail}: {curves}")
    return detail


def check_binding(setting: Setting, name: str) -> str:
    """Bound arrays give what calls give, for changing inputs, in the same memory."""
    x, _ = setting.batch(name)
    run = setting.compile(setting.nets[name])
    bound = run.bind(x)
    output, details = bound.outputs["y"], []
    for _ in range(3):
        x[...] = np.roll(x, 1, axis=0)
        assert bound()["y"] is output, "another array"
        details.append(_compare(run(x), {"y": output}))
    return f"{details[-1]}; call {_time(lambda: run(x)):.0f} us, bound {_time(bound):.0f} us"


def check_device_values(setting: Setting, name: str) -> str:
    """Values left on the device go in again, and out by DLPack."""
    x, _ = setting.batch(name)
    run = setting.compile(setting.nets[name])
    value = run.on_device(x)["y"]
    expected = "cuda" if setting.cuda else "cpu"
    assert value.device_name() == expected, f"the output is on {value.device_name()}"
    double = og.compile(_double(), providers=["cuda"] if setting.cuda else "cpu")
    twice = double.on_device(value)["y"]
    return _compare({"y": 2 * to_numpy(value)}, {"y": to_numpy(twice)})


def check_torch(setting: Setting) -> str:
    """A torch tensor on the GPU goes in and comes out without leaving it."""
    try:
        import torch
    except ImportError as error:
        raise Skip("torch is not installed") from error
    kind = "cuda" if setting.cuda else "cpu"
    if setting.cuda and not torch.cuda.is_available():
        raise Skip("this torch has no CUDA")
    x = torch.arange(12.0, device=kind).reshape(3, 4)
    value = og.compile(_double(), providers=["cuda"] if setting.cuda else "cpu").on_device(x)["y"]
    back = torch.utils.dlpack.from_dlpack(value)
    assert back.device.type == kind, f"the tensor is on {back.device}"
    return _compare({"y": (2 * x).cpu().numpy()}, {"y": back.cpu().numpy()})


def check_graph(setting: Setting, name: str) -> str:
    """A captured CUDA graph follows its inputs; two bindings of one session do not disturb each other."""
    setting.need_cuda()
    model = onnx.ModelProto()
    model.CopyFrom(setting.nets[name])
    x, _ = setting.batch(name)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = len(x)
    run, plain = setting.compile(model, cuda_graph=True), setting.compile(model)
    other = np.roll(x, 2, axis=0)
    one, two = run.bind(x), run.bind(other)
    for _ in range(4):
        x[...] = np.roll(x, 1, axis=0)
        detail = _compare(plain(x), one())
        _compare(plain(other), two())
    _compare(plain(x), run(x))  # not captured
    return f"{detail}; bound {_time(plain.bind(x)):.0f} us, captured {_time(one):.0f} us"


def _double() -> onnx.ModelProto:
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[N, M] x) => (float[N, M] y) { y = Add(x, x) }'
    return onnx.parser.parse_model(text)


def _compare(wanted: dict[str, Array], got: dict[str, Array]) -> str:
    """The largest difference of floating outputs, relative to the largest value; other outputs must be equal."""
    worst = 0.0
    for name, array in wanted.items():
        if array.dtype.kind != "f":
            np.testing.assert_array_equal(got[name], array, err_msg=name)
        elif array.size:
            np.testing.assert_array_equal(np.isfinite(got[name]), np.isfinite(array), err_msg=name)
            finite = np.isfinite(array)
            largest = max(float(np.abs(array[finite]).max(initial=0)), 1e-6)
            difference = np.abs(got[name][finite].astype(np.float64) - array[finite].astype(np.float64))
            worst = max(worst, float(difference.max(initial=0)) / largest)
    if worst > TOLERANCE:
        raise AssertionError(f"outputs are {worst:.1e} apart")
    return f"{worst:.0e} apart"


def _time(call: Callable[[], object]) -> float:
    """Microseconds of a call, the median of some."""
    times = []
    for _ in range(10):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6


def checks(setting: Setting) -> Iterator[tuple[str, Check]]:
    """All checks by name."""
    yield "CUDA", partial(check_cuda, setting)
    yield "torch tensors", partial(check_torch, setting)
    for name in setting.nets:
        yield f"training {name}", partial(check_training, setting, name)
        yield f"binding {name}", partial(check_binding, setting, name)
        yield f"device values {name}", partial(check_device_values, setting, name)
    for name in ("mlp", "resnet"):
        yield f"CUDA graph {name}", partial(check_graph, setting, name)
    for name, model, feeds in setting.models():
        yield f"placement {name}", partial(check_placement, setting, name, model, feeds)
        yield f"agreement {name}", partial(check_agreement, setting, name, model, feeds)


def run_check(name: str, check: Check) -> Outcome:
    """The outcome of one check; an error of any kind is a failure."""
    start = time.perf_counter()
    try:
        status, detail = "passed", check()
    except Skip as reason:
        status, detail = "skipped", str(reason)
    except Exception as error:  # one failure must not hide the others
        where = traceback.extract_tb(error.__traceback__)[-1]
        status, detail = "failed", f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    return Outcome(name, status, detail, time.perf_counter() - start)


def make_setting(files: tuple[Path, ...], small: bool) -> Setting:
    """The nets of full size on a GPU, small ones without one or on request."""
    cuda = why_not_cuda() == ""
    if small or not cuda:
        nets = {"mlp": mlp(32), "resnet": resnet((4, 8)), "bert": bert(16, 1, 100, 8), "lstm": lstm(8, 4, 5)}
        return Setting(cuda, nets, files, rows=4)
    return Setting(cuda, {"mlp": mlp(), "resnet": resnet(), "bert": bert(), "lstm": lstm()}, files, rows=None)


def pulled_models() -> tuple[Path, ...]:
    """The models of the catalog that are on this machine."""
    found: list[Path] = []
    for entry in catalog.entries("model"):
        if catalog.is_cached(entry.name):
            path = catalog.pull(entry.name)
            found += sorted(path.glob("*.onnx")) if path.is_dir() else [path]
    return tuple(found)


def main() -> int:
    """Run the checks and print a line for each."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="*", type=Path, help="models; those of the catalog that are here without any")
    arguments.add_argument("--small", action="store_true", help="small nets, and no files but those that are named")
    arguments.add_argument("--json", action="store_true", help="write JSON, for machines")
    given = arguments.parse_args()
    files = tuple(given.files) if given.files or given.small else pulled_models()
    setting = make_setting(files, given.small)
    outcomes = []
    for name, check in checks(setting):
        outcomes.append(run_check(name, check))
        if not given.json:
            last = outcomes[-1]
            print(f"{last.status:<8} {last.name:<32} {last.seconds:6.1f} s  {last.detail}", flush=True)
    counts = {status: sum(o.status == status for o in outcomes) for status in ("passed", "failed", "skipped")}
    if given.json:
        print(
            json.dumps({"cuda": setting.cuda, **counts, "checks": [asdict(outcome) for outcome in outcomes]}, indent=2)
        )
    else:
        print(", ".join(f"{count} {status}" for status, count in counts.items()))
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
