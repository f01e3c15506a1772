"""Cases of grad/rules/control_flow.py."""

import numpy as np

from tests.grad.checks import Case

YES, THREE, ZERO = np.array(True), np.array(3), np.array(0)


def case(op_type, name, inputs, nodes, **fields):
    """A case of several nodes; `nodes` in ONNX text."""
    return Case(op_type, inputs, name=f"{op_type}-{name}", nodes=nodes, domain=(-1, 1), **fields)


IF = """y0 = If (x0) <
    then_branch = t () => (T[A,B] p) { p = Mul(x1, x2) },
    else_branch = e () => (T[A,B] q) { a = Add(x2, x2) q = Mul(a, x2) }>"""
IF_DIRECT = """y0, y1 = If (x0) <
    then_branch = t () => (T p, T q) { p = Identity(x1) q = Mul(x1, x2) },
    else_branch = e () => (T r, T s) { r = Mul(x2, x2) s = Identity(r) }>"""
IF_NESTED = """c = Mul(x1, x2)
    y0 = If (x0) <
    then_branch = t () => (T[N] p) {
        a = Tanh(c)
        p = If (x3) < then_branch = tt () => (T[N] tp) { tp = Mul(a, x1) },
                      else_branch = te () => (T[N] tq) { tq = Mul(c, c) }> },
    else_branch = e () => (T[N] q) { q = Identity(x2) }>"""
SCAN = """y0, y1 = Scan <num_scan_inputs = 1, body = b (T[3] s, T[3] x) => (T[3] t, T[3] y) {
    h = MatMul(s, x2) z = Add(h, x) t = Tanh(z) y = Mul(t, s) }> (x0, x1)"""
SCAN_TURNED = """y0, y1, y2 = Scan <num_scan_inputs = 2, scan_input_axes = [1, -1], scan_input_directions = [1, 0],
    scan_output_axes = [1, 0], scan_output_directions = [0, 1],
    body = b (T[2] s, T[2] x, T[2] z) => (T[2] t, T[2] u, T[2] v) {
    a = Mul(x, z) b = Mul(s, x) t = Add(a, b) u = Mul(t, z) v = Mul(x, x) }> (x0, x1, x2)"""
SCAN_PLAIN = """y0 = Scan <num_scan_inputs = 1, body = b (T[2] x) => (T[2] y) { y = Mul(x, x1) }> (x0)"""
SCAN_TWO = """y0, y1 = Scan <num_scan_inputs = 1, body = b (T[2] s, T[2] r, T[2] x) => (T[2] t, T[2] u) {
    t = Mul(r, x) u = Add(s, x) }> (x0, x0, x1)"""
LOOP = """yes = Constant <value = bool {1}> ()
    y0, y1 = Loop <body = b (int64 i, bool c, T[3] s) => (bool d, T[3] t, T[3] y) {
    h = MatMul(s, x2) z = Mul(h, x1) t = Tanh(z) y = Mul(t, s) d = Identity(c) }> (x0, yes, x1)"""
LOOP_WHILE = """limit = Constant <value = int64 {9}> ()
    yes = Constant <value = bool {1}> ()
    y0, y1 = Loop <body = b (int64 i, bool c, T[2] s) => (bool d, T[2] t, T y) {
    last = Constant <value = int64 {2}> () d = Less(i, last)
    t = Mul(s, x0) y = ReduceSum <keepdims = 0> (t) }> (limit, yes, x1)"""
LOOP_INDEX = """yes = Constant <value = bool {1}> ()
    y0 = Loop <body = b (int64 i, bool c, T[2] s) => (bool d, T[2] t) {
    row = Gather(x2, i) a = Mul(row, s) t = Add(a, s) d = Identity(c) }> (x0, , x1)"""
LOOP_GROWS = """yes = Constant <value = bool {1}> ()
    y0 = Loop <body = b (int64 i, bool c, T[K] s) => (bool d, T[L] t) {
    a = Mul(s, x2) t = Concat <axis = 0> (a, s) d = Identity(c) }> (x0, yes, x1)"""
LOOP_NESTED = """yes = Constant <value = bool {1}> ()
    two = Constant <value = int64 {2}> ()
    y0 = Loop <body = b (int64 i, bool c, T[2] s) => (bool d, T[2] t) {
        d = Identity(c)
        odd = Mod(i, two) one = Constant <value = int64 {1}> () is_odd = Equal(odd, one)
        u = If (is_odd) < then_branch = tb () => (T[2] p) { p = Mul(s, x2) },
                          else_branch = eb () => (T[2] q) {
            q = Loop <body = bb (int64 j, bool e, T[2] ss) => (bool f, T[2] tt) {
                f = Identity(e) a = Mul(ss, x1) tt = Add(a, s) }> (two, c, s) }>
        t = Tanh(u) }> (x0, yes, x1)"""
LOOP_WITHIN_SCAN = """zero = Constant <value = int64[1] {0}> () yes = Constant <value = bool {1}> ()
    y0, y1 = Scan <num_scan_inputs = 1, body = b (T[2] s, T[2] x) => (T[2] t, T[2] y) {
        two = Constant <value = int64 {2}> ()
        t, rows = Loop <body = bb (int64 j, bool e, T[2] ss) => (bool f, T[2] tt, T[2] r) {
            f = Identity(e) a = Mul(ss, x) tt = Add(a, x2) r = Mul(a, s) }> (two, yes, s)
        y = ReduceSum <keepdims = 0> (rows, zero) }> (x0, x1)"""

CASES = [
    *(case("If", f"{taken}", [np.array(taken), (2, 3), (2, 3)], IF) for taken in (True, False)),
    *(case("If", f"direct-{taken}", [np.array(taken), (2,), (2,)], IF_DIRECT, outputs=2) for taken in (True, False)),
    *(case("If", f"nested-{taken}", [YES, (2,), (2,), np.array(taken)], IF_NESTED) for taken in (True, False)),
    case("Scan", "plain", [(3,), (4, 3), (3, 3)], SCAN, outputs=2),
    case("Scan", "last-state", [(3,), (4, 3), (3, 3)], SCAN, outputs=2, seeded=[0]),
    case("Scan", "rows", [(3,), (4, 3), (3, 3)], SCAN, outputs=2, seeded=[1]),
    case("Scan", "frozen-weight", [(3,), (4, 3), (3, 3)], SCAN, outputs=2, fixed=[2]),
    case("Scan", "frozen-state", [(3,), (4, 3), (3, 3)], SCAN, outputs=2, fixed=[0, 1]),
    case("Scan", "axes-directions", [(2,), (2, 3), (2, 3)], SCAN_TURNED, outputs=3),
    case("Scan", "stateless", [(3, 2), (2,)], SCAN_PLAIN),
    case("Scan", "one-start-for-two", [(2,), (3, 2)], SCAN_TWO, outputs=2),
    case("Loop", "plain", [THREE, (3,), (3, 3)], LOOP, outputs=2),
    case("Loop", "last-state", [THREE, (3,), (3, 3)], LOOP, outputs=2, seeded=[0], second=False),
    case("Loop", "no-iteration", [ZERO, (3,), (3, 3)], LOOP, outputs=2),
    case("Loop", "stops-early", [(2,), (2,)], LOOP_WHILE, outputs=2),
    case("Loop", "index", [THREE, (2,), (3, 2)], LOOP_INDEX),
    case("Loop", "grows", [THREE, (2,), ()], LOOP_GROWS),
    case("Loop", "grows-not", [ZERO, (2,), ()], LOOP_GROWS, second=False),
    case("Loop", "nested", [THREE, (2,), (2,)], LOOP_NESTED),
    case("Scan", "loop-within", [(2,), (3, 2), (2,)], LOOP_WITHIN_SCAN, outputs=2),
]
