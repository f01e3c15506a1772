"""Random layers: normalizations, attention and rotation as exporters write them, recurrent nodes, quantization."""

import numpy as np
from onnx import TensorProto

from tests.properties.rewrite_sketch import FLOAT, INT, Sketch, Value

INT8, UINT8 = TensorProto.INT8, TensorProto.UINT8
_STEEP = 16.0  # the largest argument of an exponential


def normalization(sketch: Sketch) -> None:
    """LayerNormalization, RMSNormalization, InstanceNormalization or GroupNormalization, maybe scaled behind."""
    x = sketch.operand(rank=(2, 3, 4))
    if len(x.shape) < 2 or x.dtype != FLOAT:
        return
    kinds = ["LayerNormalization", "LayerNormalization"]
    kinds += ["RMSNormalization"] * (sketch.model.opset >= 23)
    kinds += ["InstanceNormalization", "GroupNormalization"] * (len(x.shape) > 2 and sketch.model.opset >= 21)
    op_type, y = sketch.random.choice(kinds), x.of(bound=40.0, exact=False)
    if op_type in ("InstanceNormalization", "GroupNormalization"):
        size, options = x.shape[1:2], {"num_groups": 1} if op_type == "GroupNormalization" else {}
        behind = (*size, *[1] * (len(x.shape) - 2))
    else:
        axis = sketch.random.choice([-1, -1, -2])
        size, options = x.shape[axis:], {"axis": axis}
        behind = size
    biased = op_type in ("InstanceNormalization", "GroupNormalization") or (
        op_type == "LayerNormalization" and sketch.chance()
    )
    weights = [sketch.constant(sketch.integers(size)) for _ in range(1 + biased)]
    h = sketch.emit(op_type, [x.name, *weights], y, epsilon=0.5, **options)
    for op_type in ("Mul", "Add"):
        if h and sketch.chance(0.3):
            h = sketch.emit(op_type, [h.name, sketch.constant(sketch.integers(behind))], y.of(bound=3 * h.bound + 3))


def _scores(sketch: Sketch, q: Value, k: Value) -> Value | None:
    """q k^T, maybe scaled and masked."""
    size, rank, between = q.shape[-1], len(q.shape), (*q.shape[:-1], k.shape[-2])
    turned = sketch.emit("Transpose", [k.name], k.of(shape=(*k.shape[:-2], size, k.shape[-2])),
                         perm=[*range(rank - 2), rank - 1, rank - 2])  # fmt: skip
    rough = q.of(shape=between, bound=size * q.bound * k.bound, exact=q.exact and k.exact)
    s = turned and sketch.emit("MatMul", [q.name, turned.name], rough)
    if s and sketch.chance(0.7):
        op_type, factor = sketch.random.choice([("Mul", 0.25), ("Div", 4.0), ("Div", size**0.5)])
        s = sketch.emit(op_type, [s.name, sketch.constant(np.float32(factor))], s.of(exact=False))
    if s and sketch.chance(0.4):
        mask = np.tril(np.ones(between[-2:], np.float32)) * 8 - 8
        s = sketch.emit("Add", [s.name, sketch.constant(mask)], s.of(bound=s.bound + 8))
    return s


def attention(sketch: Sketch) -> None:
    """Softmax(q k^T) v over values or over heads of them, where q, k, v are one value, scaled or not."""
    x = sketch.operand(rank=(3, 4))
    if len(x.shape) not in (3, 4) or x.bound > _STEEP / 4:
        return
    wide, heads = x, len(x.shape) == 3 and x.shape[-1] % 2 == 0
    if heads:
        n, length, size = x.shape
        split = sketch.emit("Reshape", [x.name, sketch.constant([0, 0, 2, size // 2])],
                            x.of(shape=(n, length, 2, size // 2)))  # fmt: skip
        turned = split and x.of(shape=(n, 2, length, size // 2))
        moved = turned and split and sketch.emit("Transpose", [split.name], turned, perm=[0, 2, 1, 3])
        if moved is None:
            return
        x = moved
    made = [x, x, x]
    for index in range(3):
        if sketch.chance(0.3):
            scaled = x.of(bound=3 * x.bound)
            made[index] = sketch.emit("Mul", [x.name, sketch.constant(sketch.integers(x.shape[-1:]))], scaled) or x
    s = _scores(sketch, made[0], made[1])
    p = s and sketch.emit("Softmax", [s.name], s.of(bound=1.0, exact=False), axis=-1)
    y = p and sketch.emit("MatMul", [p.name, made[2].name], x.of(bound=3 * x.bound, exact=False))
    if y and heads:
        rough = wide.of(bound=y.bound, exact=False)
        turned = y.of(shape=(wide.shape[0], wide.shape[1], 2, wide.shape[2] // 2))
        back = sketch.emit("Transpose", [y.name], turned, perm=[0, 2, 1, 3])
        if back:
            sketch.emit("Reshape", [back.name, sketch.constant([0, 0, wide.shape[2]])], rough)


def rotation(sketch: Sketch) -> None:
    """x * cos + Concat(-x[..., D/2:], x[..., :D/2]) * sin."""
    x = sketch.operand(rank=(3, 4))
    if len(x.shape) not in (3, 4) or x.shape[-1] % 2:
        return
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[-2] * half, dtype=np.float32).reshape(-1, half)
    cos, sin = (sketch.constant(np.concatenate([f(angles)] * 2, axis=1)) for f in (np.cos, np.sin))
    if sketch.chance(0.2):
        cos, sin = sin, cos
    small = x.of(shape=(*x.shape[:-1], half))
    axis = sketch.constant([-1])
    low = sketch.emit("Slice", [x.name, sketch.constant([0]), sketch.constant([half]), axis], small)
    high = sketch.emit("Slice", [x.name, sketch.constant([half]), sketch.constant([2**62]), axis], small)
    minus = high and sketch.emit("Neg", [high.name], small)
    turned = minus and low and sketch.emit("Concat", [minus.name, low.name], x, axis=-1)
    rough = x.of(exact=False)
    a, b = (v and sketch.emit("Mul", [v.name, w], rough) for v, w in ((x, cos), (turned, sin)))
    if a and b:
        sketch.emit("Add", [a.name, b.name], rough.of(bound=2 * x.bound))


_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def recurrent(sketch: Sketch) -> None:
    """RNN, GRU or LSTM of two units in any direction, with states of zeros, of other numbers, or none."""
    x = sketch.operand(rank=(3,))
    if len(x.shape) != 3 or x.bound > _STEEP:
        return
    (length, batch, size), hidden = x.shape, 2
    op_type = sketch.random.choice(list(_GATES))
    direction = sketch.random.choice(["forward", "forward", "reverse", "bidirectional"])
    count, gates = 2 if direction == "bidirectional" else 1, _GATES[op_type] * hidden
    weights = [
        sketch.constant(np.float32(0.25) * sketch.integers((count, gates, k), -2, 2), fixed=True)
        for k in (size, hidden)
    ]
    state = (count, batch, hidden)
    inputs = [x.name, *weights, sketch.constant(sketch.integers((count, 2 * gates), -1, 1)) if sketch.chance() else ""]
    inputs += ["", *[_state(sketch, x, state) for _ in range(1 + (op_type == "LSTM"))]]
    y, last = (
        x.of(shape=shape, bound=length + 4.0, exact=False) for shape in ((length, *state[:1], *state[1:]), state)
    )
    given = {"linear_before_reset": sketch.random.randint(0, 1)} if op_type == "GRU" else {}
    sketch.emit(op_type, inputs, y, last, hidden_size=hidden, direction=direction, **given)


def _state(sketch: Sketch, x: Value, shape: tuple[int, ...]) -> str:
    """An initial state; nothing, a constant, or zeros of a shape that is computed."""
    kind = sketch.random.choice(["", "zeros", "numbers", "computed"])
    if kind in ("zeros", "numbers"):
        return sketch.constant(np.zeros(shape, np.float32) if kind == "zeros" else sketch.integers(shape, -1, 1))
    if kind == "":
        return ""
    s = sketch.emit("Shape", [x.name], Value("", (1,), INT, 200.0), start=1, end=2)
    sizes = [sketch.constant([shape[0]]), s.name if s else sketch.constant([shape[1]]), sketch.constant([shape[2]])]
    whole = sketch.emit("Concat", sizes, Value("", (3,), INT, 200.0), axis=0)
    zeros = whole and sketch.emit("ConstantOfShape", [whole.name], x.of(shape=shape, bound=0.0))
    return zeros.name if zeros else ""


def quantize(sketch: Sketch) -> None:
    """QuantizeLinear and DequantizeLinear of integers, maybe more of them with a move or an operator between."""
    x = sketch.operand()
    if x.dtype != FLOAT or not x.exact or sketch.special:
        return
    to, axis = sketch.random.choice([INT8, UINT8]), None
    size: tuple[int, ...] = ()
    if len(x.shape) > 1 and sketch.chance(0.3):
        axis, size = 1, x.shape[1:2]
    scales = np.full(size, sketch.random.choice([1.0, 2.0]), np.float32)
    if size and sketch.chance():
        scales[0] = 4.0
    zero = np.full(size, sketch.random.choice([0, 0, 3]), np.int8 if to == INT8 else np.uint8)
    given = [sketch.constant(scales, fixed=True), sketch.constant(zero)]
    if not zero.any() and to == UINT8 and sketch.chance():
        given = given[:1]
    options = {} if axis is None else {"axis": axis}
    for _ in range(sketch.random.randint(1, 2)):
        q = sketch.emit("QuantizeLinear", [x.name, *given], x.of(dtype=to, bound=255.0), **options)
        if q is None:
            return
        whole = x.of(bound=min(4 * x.bound + 16, 1024.0))
        d = sketch.emit("DequantizeLinear", [q.name, *given], whole, **options)
        if d is None:
            return
        x = d
        if axis is None and x.shape and sketch.chance():
            order = list(range(len(x.shape)))[::-1]
            x = sketch.emit("Transpose", [x.name], x.of(shape=x.shape[::-1]), perm=order) or x
        elif sketch.chance(0.3):
            x = sketch.emit("Relu", [x.name], x) or x


def quantized_product(sketch: Sketch) -> None:
    """MatMul of a quantized value and quantized weights, quantized again."""
    x = sketch.operand(rank=(2, 3))
    if len(x.shape) < 2 or x.dtype != FLOAT or not x.exact or sketch.special:
        return
    kinds = (UINT8, np.uint8), (INT8, np.int8)
    (to, left), (_, right) = sketch.random.choice(kinds), sketch.random.choice(kinds)
    k, n, each = x.shape[-1], 3, sketch.chance(0.3)
    scale, zero = (
        sketch.constant(np.float32(1), fixed=True),
        sketch.constant(np.array(sketch.random.choice([0, 2]), left)),
    )
    size: tuple[int, ...] = (n,) if each else ()
    scales = np.full(size, sketch.random.choice([0.5, 1, 2]), np.float32)
    weights = np.abs(sketch.integers((k, n), -2, 2)) if right is np.uint8 else sketch.integers((k, n), -2, 2)
    options = {"axis": 1} if each else {}
    inner = [sketch.constant(scales, fixed=True), sketch.constant(np.full(size, sketch.random.choice([0, 1]), right))]
    q = sketch.emit("QuantizeLinear", [x.name, scale, zero], x.of(dtype=to, bound=255.0))
    a = q and sketch.emit("DequantizeLinear", [q.name, scale, zero], x.of(bound=x.bound + 2))
    if not a:
        return
    b = sketch.emit("DequantizeLinear", [sketch.constant(weights.astype(right)), *inner],
                    Value("", (k, n), bound=6.0, exact=False), **options)  # fmt: skip
    y = b and sketch.emit("MatMul", [a.name, b.name], x.of(shape=(*x.shape[:-1], n), bound=6 * k * a.bound))
    wide = [sketch.constant(np.float32(sketch.random.choice([2, 4, 3])), fixed=True), zero]
    p = y and sketch.emit("QuantizeLinear", [y.name, *wide], y.of(dtype=to, bound=255.0))
    if p and y:
        sketch.emit("DequantizeLinear", [p.name, *wide], y.of(bound=1024.0))


FAMILIES = (
    normalization,
    normalization,
    attention,
    attention,
    rotation,
    *[recurrent] * 3,
    quantize,
    quantize,
    quantized_product,
)
