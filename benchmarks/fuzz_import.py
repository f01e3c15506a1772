"""Damage real model files at random and see what comes out of load and compile: a model, or an error of onnxgrad.

    python benchmarks/fuzz_import.py [--inputs 20000] [--seed 0] [--memory 2048] [FILE ...]

Work is done by child processes that cannot take more than `--memory` MiB; a child that dies was killed by one input,
which is written to the folder fuzz-failures. Without files, small models that the script builds are damaged. Exits with
1 when anything but an OnnxGradError came out, or a child died.
"""

import argparse
import multiprocessing
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import onnx
from onnx import parser

from onnxgrad.engine.compile import compile
from onnxgrad.engine.errors import OnnxGradError
from onnxgrad.importers.onnx import load

_HEADER = '<ir_version: 10, opset_import: ["" : 21]>\n'
_SEEDS = (
    """g (float[N, 3] x) => (float[N, 2] y) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0.5, 1}>
    { h = Gemm (x, w, b) y = Relu(h) }""",
    """g (bool c, float[2] x) => (float[2] y) { y = If (c)
      <then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] a) { a = Relu(x) }> }""",
    """g (int64 n, float[2] x) => (float[2] y) { k = Constant <value = bool {1}> () y = Loop (n, k, x)
      <body = b (int64 i, bool c, float[2] s) => (bool m, float[2] t) { m = Identity(c) t = Neg(s) }> }""",
    """g (float[1, 1, 6, 6] x) => (float[1, 2, M, K] y) <float[2, 1, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3,
    4, 5, 6, 7, 8, 9}> { c = Conv <pads = [1, 1, 1, 1]> (x, w) y = MaxPool <kernel_shape = [2, 2]> (c) }""",
    """g (float[N, 4] x, int64[2] s) => (float[A, B] y, int64[2] z) { r = Reshape(x, s) z = Shape(r)
      y = Softmax <axis = 1> (r) }""",
    """g (string[N] x, uint8[N] q) => (string[N] y, float[N] d) <float k = {0.5}, uint8 z = {3}>
    { y = StringNormalizer <case_change_action = "UPPER"> (x) d = DequantizeLinear(q, k, z) }""",
    """g (bfloat16[N] x, int4[N] i) => (bfloat16[N] y, float[N] f) { y = Neg(x) f = Cast <to = 1> (i) }""",
)


def seed_models() -> list[bytes]:
    """Small models with bodies, weights, strings and narrow types."""
    return [parser.parse_model(_HEADER + text).SerializeToString() for text in _SEEDS]


def damage_bytes(data: bytes, random_: random.Random) -> bytes:
    """Some bytes changed, cut out, doubled, or the end lost."""
    changed = bytearray(data)
    for _ in range(random_.choice((1, 1, 2, 4, 16))):
        if not changed:
            break
        start = min(random_.randrange(len(changed)) for _ in range(random_.choice((1, 3))))  # the graph is at the start
        end = min(len(changed), start + random_.choice((1, 1, 2, 8, 64)))
        match random_.randrange(6):
            case 0:
                changed[start] ^= 1 << random_.randrange(8)
            case 1:
                changed[start:end] = random_.randbytes(end - start)
            case 2:
                del changed[start:end]
            case 3:
                changed[start:start] = changed[start:end]
            case 4:
                changed[start:end] = random_.choice((b"\xff", b"\x00", b"\x80", b"\x7f")) * (end - start)
            case _:
                del changed[start:]
    return bytes(changed)


def damage_structure(data: bytes, random_: random.Random) -> bytes:
    """A message that parses, with something in it that should not be: names, types, sizes, order, attributes."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(random_.choice((1, 1, 2, 5))):
        random_.choice(_CHANGES)(model, random_)
    return bytes(model.SerializeToString())


def _names(model: onnx.ModelProto) -> list[str]:
    names = [name for node in model.graph.node for name in (*node.input, *node.output)]
    return [*names, "", "nowhere", *(value.name for value in model.graph.input)]


def _rename(model: onnx.ModelProto, random_: random.Random) -> None:
    node = random_.choice(model.graph.node)
    names = random_.choice((node.input, node.output))
    if names:
        names[random_.randrange(len(names))] = random_.choice(_names(model))


def _retype(model: onnx.ModelProto, random_: random.Random) -> None:
    value = random_.choice((*model.graph.input, *model.graph.output))
    value.type.tensor_type.elem_type = random_.choice((0, 1, 2, 7, 8, 9, 10, 16, 17, 22, 23, 24, 26, 99))


def _reshape(model: onnx.ModelProto, random_: random.Random) -> None:
    size = random_.choice((-(2**63), -1, 0, 1, 3, 10**6, 10**12, 2**63 - 1))
    dims = [tensor.dims for tensor in model.graph.initializer if tensor.dims]
    if dims and random_.random() < 0.5:
        chosen = random_.choice(dims)
        chosen[random_.randrange(len(chosen))] = size
    else:
        value = random_.choice((*model.graph.input, *model.graph.output))
        value.type.tensor_type.shape.dim.add(dim_value=size)


def _change_operator(model: onnx.ModelProto, random_: random.Random) -> None:
    node = random_.choice(model.graph.node)
    node.op_type = random_.choice((*_OPERATORS, node.op_type.lower(), ""))


def _change_attribute(model: onnx.ModelProto, random_: random.Random) -> None:
    node = random_.choice(model.graph.node)
    if node.attribute and random_.random() < 0.7:
        attribute = random_.choice(node.attribute)
        attribute.type = random_.randrange(15)
        attribute.ints.extend([random_.choice((-1, 0, 10**12))])
    else:
        name = random_.choice(("axis", "axes", "to", "value", "body"))
        node.attribute.add(name=name, type=2, i=random_.choice((-9, 10**12)))


def _copy_node(model: onnx.ModelProto, random_: random.Random) -> None:
    model.graph.node.append(random_.choice(model.graph.node))


def _remove(model: onnx.ModelProto, random_: random.Random) -> None:
    graph = model.graph
    parts = random_.choice((graph.node, graph.input, graph.output, graph.initializer, model.opset_import))
    if len(parts) > 1:
        del parts[random_.randrange(len(parts))]


def _change_version(model: onnx.ModelProto, random_: random.Random) -> None:
    if model.opset_import:
        random_.choice(model.opset_import).version = random_.choice((-1, 0, 1, 6, 7, 12, 25, 28, 99, 2**40))
    model.ir_version = random_.choice((0, 1, 3, 8, 10, 14, 99, 2**40, model.ir_version))


def _reverse(model: onnx.ModelProto, random_: random.Random) -> None:
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


_OPERATORS = (
    "Add", "Concat", "ConstantOfShape", "Expand", "If", "Loop", "Range", "Reshape", "Resize", "Scan", "Split", "Tile",
)  # fmt: skip
_CHANGES = (
    _rename, _retype, _reshape, _change_operator, _change_attribute, _copy_node, _remove, _change_version, _reverse,
)  # fmt: skip


def damaged(seeds: Sequence[bytes], number: int, seed: int) -> bytes:
    """Input `number` of a run: a seed, damaged in one way or the other."""
    random_ = random.Random(f"{seed}/{number}")
    data = random_.choice(seeds)
    return (damage_structure if random_.random() < 0.6 else damage_bytes)(data, random_)


def try_input(data: bytes) -> str:
    """What came of an input: "runs", the name of an OnnxGradError, or "BUG: ..." with the last lines of a traceback."""
    try:
        compile(load(data), providers="cpu", threads=1)
    except OnnxGradError as error:
        return type(error).__name__
    except Exception as error:  # what must not come out
        where = "".join(traceback.format_tb(error.__traceback__)[-3:])
        return f"BUG: {type(error).__name__}: {str(error)[:300]}\n{where}"
    return "runs"


@dataclass
class Result:
    """Outcomes of a run; `failures` holds the number of an input and what is wrong with it."""

    counts: Counter[str]
    failures: dict[int, str]
    peak: int


def _work(seeds: Sequence[bytes], seed: int, memory: int, orders: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (memory << 20, memory << 20))
    while True:
        number = orders.recv()
        result = try_input(damaged(seeds, number, seed))
        orders.send((result, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))


class _Worker:
    """A child process that tries one input after the other."""

    def __init__(self, seeds: Sequence[bytes], seed: int, memory: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._orders, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(seeds, seed, memory, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, number: int, patience: float) -> tuple[str, int]:
        """The outcome of an input and the most memory taken so far in KiB. Raises: TimeoutError, EOFError, OSError."""
        self._orders.send(number)
        if not self._orders.poll(patience):
            raise TimeoutError
        outcome, peak = self._orders.recv()
        return outcome, peak

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.join()


def fuzz(
    seeds: Sequence[bytes], inputs: int, seed: int = 0, memory: int = 2048, patience: float = 60.0,
    tell: Callable[[int], None] = lambda number: None,
) -> Result:  # fmt: skip
    """Try `inputs` damaged models in child processes of limited memory; one that dies or hangs is replaced."""
    result = Result(Counter(), {}, 0)
    worker: _Worker | None = None
    for number in range(inputs):
        worker = worker or _Worker(seeds, seed, memory)
        try:
            outcome, peak = worker.ask(number, patience)
        except TimeoutError:
            outcome, peak = f"BUG: no answer for {patience} s", 0
            worker.stop()
            worker = None
        except (EOFError, OSError):
            worker.process.join(5)
            outcome, peak = f"BUG: the process died with status {worker.process.exitcode}", 0
            worker.stop()
            worker = None
        result.counts[outcome.split(":")[0]] += 1
        result.peak = max(result.peak, peak >> 10)
        if outcome.startswith("BUG"):
            result.failures[number] = outcome
        tell(number)
    if worker is not None:
        worker.stop()
    return result


def main() -> int:
    """Print what came out."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="*", type=Path)
    arguments.add_argument("--inputs", type=int, default=20_000)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--memory", type=int, default=2048)
    given = arguments.parse_args()
    seeds = [*seed_models(), *(path.read_bytes() for path in given.files)]
    start = time.perf_counter()

    def tell(number: int) -> None:
        if number and number % 500 == 0:
            print(f"{number} inputs, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)

    result = fuzz(seeds, given.inputs, given.seed, given.memory, tell=tell)
    print(", ".join(f"{name}: {count}" for name, count in result.counts.most_common()))
    print(f"{given.inputs} inputs in {time.perf_counter() - start:.0f} s, at most {result.peak} MiB")
    for number, why in result.failures.items():
        folder = Path("fuzz-failures")
        folder.mkdir(exist_ok=True)
        (folder / f"{given.seed}-{number}.onnx").write_bytes(damaged(seeds, number, given.seed))
        print(f"input {number}: {why}")
    return int(bool(result.failures))


if __name__ == "__main__":
    sys.exit(main())
