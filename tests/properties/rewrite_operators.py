"""Random operators that compute: element by element, and sums of products."""

import numpy as np
from onnx import TensorProto

from tests.properties.random_graphs import broadcast, product_shape
from tests.properties.rewrite_sketch import BOOL, DTYPES, FLOAT, NUMBERS, Sketch, Value


def unary(sketch: Sketch) -> None:
    """Activations, rounding of integers, no-ops."""
    x = sketch.operand()
    op_type = sketch.random.choice(["Relu", "Relu", "Neg", "Abs", "Sigmoid", "Tanh", "LeakyRelu", "Floor", "Sign"])
    if op_type in ("Floor", "Sign") and not x.exact:
        return
    loses = op_type in ("Sigmoid", "Tanh", "LeakyRelu")
    sketch.emit(op_type, [x.name], x.of(exact=x.exact and not loses))


def no_op(sketch: Sketch) -> None:
    """Identity, Dropout of inference, or an operator with a neutral constant."""
    x = sketch.operand(*NUMBERS)
    op_type, neutral = sketch.random.choice([("Identity", None), ("Dropout", None), ("Add", 0), ("Mul", 1), ("Div", 1)])
    if op_type == "Dropout" and x.dtype != FLOAT:
        return
    shape = sketch.random.choice([(), (1,), x.shape[-1:], (1,) * (len(x.shape) + 1)])
    rank = max(len(shape), len(x.shape))
    extra = [] if neutral is None else [sketch.constant(np.full(shape, neutral, DTYPES[x.dtype]))]
    sketch.emit(op_type, [x.name, *extra], x.of(shape=x.shape if not extra else (1,) * (rank - len(x.shape)) + x.shape))


def constant_operand(sketch: Sketch) -> None:
    """Add, Sub, Mul, Div, Max, Min, Pow with a constant that broadcasts."""
    x = sketch.operand(*NUMBERS)
    shape = tuple(d if sketch.chance() else 1 for d in x.shape[sketch.random.randint(0, len(x.shape)) :])
    op_type = sketch.random.choice(["Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow"])
    array = sketch.integers(shape, dtype=x.dtype)
    if op_type in ("Div", "Pow"):
        if x.dtype != FLOAT:
            return
        array = (
            np.full(shape, sketch.random.choice([1, 2, 4]), np.float32) if op_type == "Div" else np.array(2, np.float32)
        )
    large = {"Mul": 3 * x.bound, "Pow": x.bound**2, "Div": x.bound}.get(op_type, x.bound + 3)
    pair = [x.name, sketch.constant(array)]
    turned = pair[::-1] if op_type not in ("Div", "Pow") and sketch.chance(0.4) else pair
    sketch.emit(op_type, turned, x.of(bound=large, exact=x.exact and op_type != "Div"))


def two(sketch: Sketch) -> None:
    """Two computed operands; often the same one twice, or one of another shape."""
    a = sketch.operand(*NUMBERS)
    fitting = [b for b in sketch.values if b.dtype == a.dtype and broadcast(a.shape, b.shape) is not None]
    if not fitting:
        return
    b = sketch.random.choice(fitting)
    op_type = sketch.random.choice(["Add", "Add", "Sub", "Mul", "Max", "Min"])
    large = a.bound * b.bound if op_type == "Mul" else a.bound + b.bound
    shape = broadcast(a.shape, b.shape) or ()
    sketch.emit(op_type, [a.name, b.name], a.of(shape=shape, bound=large, exact=a.exact and b.exact))


def clip(sketch: Sketch) -> None:
    """Clip with both bounds or one, in any order."""
    x = sketch.operand()
    bounds = [sketch.constant(np.float32(sketch.random.randint(-3, 6))) for _ in range(2)]
    given = sketch.random.choice([bounds, bounds[:1], ["", bounds[1]]])
    sketch.emit("Clip", [x.name, *given], x.of(bound=x.bound + 6))


def cast(sketch: Sketch) -> None:
    """To another dtype that holds all values."""
    x = sketch.operand(*NUMBERS, BOOL)
    to = sketch.random.choice([*NUMBERS, BOOL])
    floats = (FLOAT, TensorProto.DOUBLE)
    if x.dtype in floats and to not in floats and (sketch.special or not x.exact):
        return
    sketch.emit("Cast", [x.name], x.of(dtype=to, bound=1.0 if to == BOOL else x.bound), to=to)


def choose(sketch: Sketch) -> None:
    """A comparison of integers, and Where."""
    x = sketch.operand()
    whole = [v for v in sketch.values if v.exact and v.dtype == FLOAT and broadcast(v.shape, x.shape) == x.shape]
    if not whole:
        return
    a = sketch.random.choice(whole)
    limit = sketch.constant(np.float32(sketch.random.randint(-2, 2)))
    mask = sketch.emit(sketch.random.choice(["Greater", "Less", "Equal"]), [a.name, limit], a.of(dtype=BOOL, bound=1.0))
    assert mask is not None
    if sketch.chance(0.3):
        mask = sketch.emit("Not", [mask.name], mask)
    other = sketch.constant(np.float32(sketch.random.choice([0, 1, -1])))
    if mask is not None:
        sketch.emit("Where", [mask.name, *sketch.random.sample([x.name, other], 2)], x.of(bound=x.bound + 1))


# --- sums of products --------------------------------------------------------------------------------------------


def conv(sketch: Sketch) -> None:
    """Conv, maybe padded before."""
    x = sketch.operand(rank=(3, 4))
    if len(x.shape) not in (3, 4):
        return
    n, channels, *space = x.shape
    groups = sketch.random.choice([g for g in (1, 2, channels) if channels % g == 0])
    size, out = sketch.random.choice([1, 2, 3]), 4 if groups in (1, 2, 4) else channels
    if out % groups or min(space) + 2 * (size // 2) < size:
        return
    w = sketch.integers((out, channels // groups, *[size] * len(space)), -2, 2)
    bias = [sketch.constant(sketch.integers((out,)))] if sketch.chance() else []
    pads = [sketch.random.randint(0, size // 2) for _ in range(2 * len(space))]
    ends = [d + pads[k] + pads[k + len(space)] - size + 1 for k, d in enumerate(space)]
    if min(ends) < 1:
        return
    large = 2 * x.bound * w[0].size + 3
    sketch.emit("Conv", [x.name, sketch.constant(w), *bias], x.of(shape=(n, out, *ends), bound=large),
              group=groups, pads=pads, kernel_shape=[size] * len(space))  # fmt: skip


def norm(sketch: Sketch) -> None:
    """BatchNormalization of inference."""
    x = sketch.operand(rank=(2, 3, 4))
    if len(x.shape) < 2:
        return
    low = [-2, -2, -2, 1]
    given = [sketch.constant(sketch.integers(x.shape[1:2], low[k])) for k in range(4)]
    sketch.emit("BatchNormalization", [x.name, *given], x.of(bound=3 * x.bound + 10, exact=False), epsilon=0.5)


def pad(sketch: Sketch) -> None:
    """Pad with a constant, or copies of the edge."""
    x = sketch.operand(rank=(2, 3, 4))
    rank = len(x.shape)
    inner = [k >= 2 or sketch.chance(0.2) for k in range(rank)]
    pads = [sketch.random.choice([0, 0, 1, 2]) if inside else 0 for inside in inner * 2]
    mode = sketch.random.choice(["constant", "constant", "edge"])
    fill = [sketch.constant(np.float32(sketch.random.choice([0, 0, 1])))] if sketch.chance(0.7) else []
    shape = tuple(d + pads[k] + pads[k + rank] for k, d in enumerate(x.shape))
    if rank:
        sketch.emit("Pad", [x.name, sketch.constant(pads), *fill], x.of(shape=shape), mode=mode)


def pool(sketch: Sketch) -> None:
    """MaxPool, AveragePool or the global ones."""
    x = sketch.operand(rank=(4,))
    if len(x.shape) != 4 or min(x.shape[2:]) < 2:
        return
    n, c, h, w = x.shape
    op_type = sketch.random.choice(["MaxPool", "AveragePool", "GlobalAveragePool"])
    if op_type == "GlobalAveragePool":
        sketch.emit(op_type, [x.name], x.of(shape=(n, c, 1, 1), exact=False))
    else:
        shape, exact = (n, c, h - 1, w - 1), x.exact and op_type == "MaxPool"
        sketch.emit(op_type, [x.name], x.of(shape=shape, exact=exact), kernel_shape=[2, 2])


def matmul(sketch: Sketch) -> None:
    """MatMul with a constant on either side, maybe turned around first, and a bias."""
    x = sketch.operand(rank=(1, 2, 3, 4))
    if not x.shape:
        return
    k, n = x.shape[-1], sketch.random.choice([1, 3, 4])
    w, large = sketch.integers((k, n), -2, 2), 2 * k * x.bound
    turned = None
    if sketch.chance(0.3):
        turned = sketch.emit("Transpose", [sketch.constant(w.T.copy())], Value("", (k, n), bound=2.0), perm=[1, 0])
    name = turned.name if turned else sketch.constant(w)
    h = sketch.emit("MatMul", [x.name, name], x.of(shape=(*x.shape[:-1], n), bound=large))
    if h and sketch.chance():
        sketch.emit("Add", [h.name, sketch.constant(sketch.integers((n,)))], h.of(bound=large + 3))


def gemm(sketch: Sketch) -> None:
    """Gemm with any factors, turned operands and biases."""
    x = sketch.operand(rank=(2,))
    if len(x.shape) != 2:
        return
    (m, k), n = x.shape, 4
    turn_a, turn_b = sketch.random.randint(0, 1), sketch.random.randint(0, 1)
    m, k = (k, m) if turn_a else (m, k)
    w = sketch.integers((n, k) if turn_b else (k, n), -2, 2)
    biases: list[list[tuple[int, ...]]] = [[], [(n,)], [(1, n)], [(m, 1)], [()], [(m, n)]]
    bias = [sketch.constant(sketch.integers(shape)) for shape in sketch.random.choice(biases)]
    alpha, beta = sketch.random.choice([1.0, 1.0, 2.0, -1.0]), sketch.random.choice([1.0, 1.0, 2.0])
    sketch.emit("Gemm", [x.name, sketch.constant(w), *bias], x.of(shape=(m, n), bound=4 * k * x.bound + 6),
              alpha=alpha, beta=beta, transA=turn_a, transB=turn_b)  # fmt: skip


def product(sketch: Sketch) -> None:
    """MatMul of two computed values, or an Einsum."""
    a = sketch.operand(rank=(2, 3, 4))
    fitting = [b for b in sketch.values if b.dtype == FLOAT and product_shape(a.shape, b.shape) is not None]
    if len(a.shape) == 2 and sketch.chance(0.4):
        (m, k) = a.shape
        equation, letters = sketch.random.choice([("ij,kj->ik", "mm"), ("ij->ji", "km"), ("ij,ij->i", "m")])
        operands = [a.name, a.name] if "," in equation else [a.name]
        sizes = {"m": m, "k": k}
        large = a.bound**2 * k if "," in equation else a.bound
        sketch.emit("Einsum", operands, a.of(shape=tuple(sizes[c] for c in letters), bound=large), equation=equation)
    elif fitting and a.shape:
        b = sketch.random.choice(fitting)
        shape = product_shape(a.shape, b.shape) or ()
        large = a.bound * b.bound * a.shape[-1]
        sketch.emit("MatMul", [a.name, b.name], a.of(shape=shape, bound=large, exact=a.exact and b.exact))


FAMILIES = (
    *(unary, unary, no_op, constant_operand, constant_operand, two, clip, cast, choose),
    *(conv, conv, norm, pad, pool, matmul, gemm, product),
)
