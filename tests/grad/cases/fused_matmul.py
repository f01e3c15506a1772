"""Cases for grad/rules/fused_matmul.py. What they compute in float64 stands in tests/grad/contrib_matmul.py."""

import numpy as np

from tests.grad.checks import Case, Input

CONTRIB = "com.microsoft"


def fused(a, b, **attributes) -> Case:
    return Case("FusedMatMul", (a, b), attributes, op_domain=CONTRIB)


def gemm(a, b, c, **attributes) -> Case:
    return Case("FusedGemm", (a, b, c) if c else (a, b), attributes, op_domain=CONTRIB)


def nbits(bits, zeros=False, bias=False, columns=30, block=16, groups=False, **options) -> Case:
    rng = np.random.default_rng(0)
    blocks, rows = -(-columns // block), 3
    packed = rng.integers(0, 256, (rows, blocks, block * bits // 8)).astype(np.uint8)
    inputs: list[Input] = [(2, columns), packed, rng.uniform(0.1, 0.5, (rows, blocks)), None, None, (rows,)]
    if zeros:
        inputs[3] = rng.integers(0, 256, (rows, -(-blocks * bits // 8))).astype(np.uint8)
    if groups:
        inputs[4] = rng.integers(0, blocks, columns).astype(np.int32)
    attributes = {"K": columns, "N": rows, "bits": bits, "block_size": block}
    name = f"MatMulNBits-{bits}-{zeros}-{groups}-{bias}-{columns}"
    return Case(
        "MatMulNBits",
        inputs if bias else inputs[: 5 if groups else 4 if zeros else 3],
        attributes,
        fixed=(2,),  # a kernel takes constants only
        op_domain=CONTRIB,
        name=name,
        half=False,
        **options,
    )


INTEGERS = np.array([[1, -2], [5, 0], [-7, 3]], np.int8)
SCALE = np.array([0.5])

CASES = [
    fused((2, 3), (3, 4), alpha=0.5),
    fused((3, 2), (4, 3), transA=1, transB=1),
    fused((2, 3, 2), (3, 4), transA=1, alpha=2.0),
    fused((3, 2, 4), (2, 4, 3), transBatchA=1),
    fused((4, 2, 3), (3, 2, 4), transA=1, transBatchA=1, transB=1, transBatchB=1),
    fused((3,), (3, 2), transA=1),
    gemm((2, 3), (3, 2), (2,), activation="Relu"),
    gemm((3, 2), (2, 3), None, activation="LeakyRelu", activation_alpha=0.25, transA=1, transB=1),
    nbits(4),
    nbits(4, zeros=True, bias=True, runs32=False),  # a kernel takes a bias of static shape only
    nbits(8, columns=32),
    nbits(2, zeros=True),
    nbits(4, columns=32, groups=True),
    nbits(4, zeros=True, columns=32, groups=True),
    nbits(4, groups=True),
    Case(
        "DynamicQuantizeMatMul", ((2, 3), INTEGERS, SCALE), op_domain=CONTRIB, fixed=(2,), name="DynamicQuantizeMatMul"
    ),
    Case(
        "DynamicQuantizeMatMul",
        ((2, 3), INTEGERS, SCALE, np.array([1], np.int8), (2,)),
        op_domain=CONTRIB,
        fixed=(2,),
        name="DynamicQuantizeMatMul-bias",
    ),
]
