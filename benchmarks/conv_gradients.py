"""Time the gradients of convolutions against PyTorch's, one thread, in one process, in turn.

usage: python benchmarks/conv_gradients.py [--only NAME] [--rounds 11]

Best times in milliseconds, onnxgrad / PyTorch 2.13, onnxruntime 1.31, batch 32, two-core AMD EPYC with AVX2. The rows
of 3x3 ResNet convolutions were taken on the idle machine, from the same graphs with a known batch; the others are the
best of several runs beside other work. Under load the 3x3 rows lie between 1.2 and 1.8, as the slices want cache:

    resnet stem               dx  0.99 /  3.58   dw  1.60 /  1.29   both 0.53
    resnet 32-32              dx  7.80 /  6.56   dw 10.41 /  7.71   both 1.28
    resnet 32-64 s2           dx  4.26 /  5.67   dw  6.93 /  4.23   both 1.13
    resnet 64-64              dx  7.06 /  5.87   dw  8.63 /  6.41   both 1.28
    resnet 64-128 s2          dx  3.97 /  4.22   dw  5.00 /  3.92   both 1.10
    resnet 128-128            dx  7.45 /  5.06   dw  7.80 /  6.03   both 1.38
    resnet skip 32-64 s2      dx  1.06 /  3.06   dw  0.91 /  1.12   both 0.47
    resnet skip 64-128 s2     dx  0.62 /  1.45   dw  0.67 /  0.61   both 0.63
    lcnet stem s2             dx  0.93 /  2.87   dw  1.84 /  0.60   both 0.80
    lcnet depthwise 16        dx  1.40 /  0.63   dw  2.60 /  1.22   both 2.16
    lcnet pointwise 16-32     dx  0.72 /  0.74   dw  0.67 /  0.96   both 0.82
    lcnet depthwise 32 s2     dx  1.43 /  1.32   dw  3.35 /  1.22   both 1.88
    lcnet depthwise 64        dx  1.67 /  0.69   dw  3.38 /  1.12   both 2.79
    lcnet pointwise 64-64     dx  1.10 /  0.97   dw  0.91 /  0.97   both 1.04
    lcnet depthwise 128       dx  1.63 /  0.30   dw  1.13 /  0.29   both 4.68
    lcnet pointwise 128-128   dx  0.84 /  0.76   dw  0.86 /  0.81   both 1.08
    lcnet depthwise 256 5x5   dx  3.51 /  0.54   dw  1.96 /  4.67   both 1.05
    lcnet pointwise 256-256   dx  1.07 /  0.78   dw  0.80 /  0.82   both 1.17
    lcnet depthwise 256 s2    dx  2.63 /  0.30   dw  1.40 /  2.70   both 1.34
    lcnet pointwise 512-512   dx  0.69 /  0.80   dw  0.86 /  1.25   both 0.76

What was tried for the weight gradient of 32-32 (best of each): a product per kernel position and image 10.4, one per
position over all images, channels first 10.8, channels last 13.3, one product per image over all positions 12.8 (over
all images, channels last: 22.3), shifts of rows in dy and of columns in x with one product 11.2. The products alone
take about 8.2.
For the data gradient of these nets a transposed convolution is within 10 % of a convolution with the turned kernel, and
with stride 2 it is 4 to 9 times faster than a convolution over dy filled up with zeros.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np
import onnx.helper as oh
import onnxruntime as ort
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass

import onnxgrad as og


@dataclass(frozen=True)
class Shape:
    """A convolution of a square image, padded by half the kernel."""

    name: str
    channels: int
    filters: int
    size: int
    kernel: int
    stride: int = 1
    group: int = 1
    batch: int = 32


SHAPES = [
    Shape("resnet stem", 3, 32, 32, 3),
    Shape("resnet 32-32", 32, 32, 32, 3),
    Shape("resnet 32-64 s2", 32, 64, 32, 3, 2),
    Shape("resnet 64-64", 64, 64, 16, 3),
    Shape("resnet 64-128 s2", 64, 128, 16, 3, 2),
    Shape("resnet 128-128", 128, 128, 8, 3),
    Shape("resnet skip 32-64 s2", 32, 64, 32, 1, 2),
    Shape("resnet skip 64-128 s2", 64, 128, 16, 1, 2),
    Shape("lcnet stem s2", 3, 16, 64, 3, 2),
    Shape("lcnet depthwise 16", 16, 16, 32, 3, 1, 16),
    Shape("lcnet pointwise 16-32", 16, 32, 32, 1),
    Shape("lcnet depthwise 32 s2", 32, 32, 32, 3, 2, 32),
    Shape("lcnet depthwise 64", 64, 64, 16, 3, 1, 64),
    Shape("lcnet pointwise 64-64", 64, 64, 16, 1),
    Shape("lcnet depthwise 128", 128, 128, 8, 3, 1, 128),
    Shape("lcnet pointwise 128-128", 128, 128, 8, 1),
    Shape("lcnet depthwise 256 5x5", 256, 256, 4, 5, 1, 256),
    Shape("lcnet pointwise 256-256", 256, 256, 4, 1),
    Shape("lcnet depthwise 256 5x5 s2", 256, 256, 4, 5, 2, 256),
    Shape("lcnet pointwise 512-512", 512, 512, 2, 1),
]


def gradient_session(shape: Shape, wrt: str) -> ort.InferenceSession:
    """The gradient alone: without the forward convolution, which it does not need."""
    pad = shape.kernel // 2
    node = oh.make_node("Conv", ["x", "w"], ["y"], strides=[shape.stride] * 2, pads=[pad] * 4, group=shape.group)
    image = ["N", shape.channels, shape.size, shape.size]
    weight = [shape.filters, shape.channels // shape.group, shape.kernel, shape.kernel]
    inputs = [oh.make_tensor_value_info("x", 1, image), oh.make_tensor_value_info("w", 1, weight)]
    graph = oh.make_graph([node], "conv", inputs, [oh.make_tensor_value_info("y", 1, None)])
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=10)
    gradient = og.gradient_model(model.SerializeToString(), wrt=[wrt])
    gradient.graph.outputs[:] = [value for value in gradient.graph.outputs if value.name != "y"]
    RemoveUnusedNodesPass()(gradient)  # onnxruntime would run the forward convolution all the same
    proto = og.to_proto(gradient)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def time_shape(shape: Shape, rounds: int) -> None:
    """Print best times in milliseconds of the data and the weight gradient, ours and PyTorch's."""
    rng, pad = np.random.default_rng(0), shape.kernel // 2
    count = (shape.size + 2 * pad - shape.kernel) // shape.stride + 1
    x = rng.standard_normal((shape.batch, shape.channels, shape.size, shape.size)).astype("f4")
    w = rng.standard_normal((shape.filters, shape.channels // shape.group, shape.kernel, shape.kernel)).astype("f4")
    dy = rng.standard_normal((shape.batch, shape.filters, count, count)).astype("f4")
    tx, tw, tdy = map(torch.from_numpy, (x, w, dy))
    line, totals = f"{shape.name:28s}", [0.0, 0.0]
    for wrt, mask in (("x", [True, False, False]), ("w", [False, True, False])):
        session = gradient_session(shape, wrt)
        wanted = {value.name for value in session.get_inputs()}
        feeds = {k: v for k, v in {"x": x, "w": w, "y.grad": dy}.items() if k in wanted}
        theirs = lambda: torch.ops.aten.convolution_backward(  # noqa: E731
            tdy,
            tx,
            tw,
            None,
            [shape.stride] * 2,
            [pad] * 2,
            [1, 1],
            False,
            [0, 0],
            shape.group,
            mask,  # noqa: B023
        )["xw".index(wrt)]  # noqa: B023
        ours = lambda: session.run(None, feeds)[0]  # noqa: B023, E731
        want, got = theirs().numpy(), ours()
        assert np.abs(got - want).max() <= 1e-3 * np.abs(want).max(), (shape, wrt)
        best = [1e9, 1e9]
        for _ in range(rounds):
            for i, run in enumerate((ours, theirs)):
                start = time.perf_counter()
                run()
                best[i] = min(best[i], 1e3 * (time.perf_counter() - start))
        totals = [a + b for a, b in zip(totals, best, strict=True)]
        line += f"  d{wrt} {best[0]:6.2f} / {best[1]:6.2f}"
    print(f"{line}  both {totals[0] / totals[1]:5.2f}", flush=True)


def main() -> None:
    """Time every shape whose name contains --only."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=11)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("milliseconds, onnxgrad / PyTorch; both: time of the two gradients over PyTorch's")
    for shape in SHAPES:
        if arguments.only in shape.name:
            time_shape(shape, arguments.rounds)


if __name__ == "__main__":
    main()
