"""Support vector machines of ai.onnx.ml: decision values, as sums of kernels."""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import Builder, describe, rank
from onnxgrad.grad.decompose import through
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient

ML = "ai.onnx.ml"


@gradient("SVMRegressor", domain=ML, note="0 for one_class, whose output is a sign")
def svm_regressor(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = sum_j c_j k(x, s_j) + rho"""
    if node.attributes.get_int("one_class", 0):
        return (None,)
    _require_plain(node)
    count = node.attributes.get_int("n_supports", 0)
    weights = _floats(node, "coefficients").reshape(1, -1)
    return through(op, node, [dy], lambda op, x: _decide(op, node, x, dy, weights, count))


@gradient("SVMClassifier", domain=ML, note="decision values only; probabilities are refused")
def svm_classifier(op: GradientBuilder, node: ir.Node, dy: ir.Value | None, dz: ir.Value | None) -> Grads:
    """Scores z = sum_j c_j k(x, s_j) + rho for each class, or for each pair of classes; labels have no gradient"""
    if dz is None:
        return (None,)
    _require_plain(node)
    counts = [int(count) for count in node.attributes.get_ints("vectors_per_class", [])]
    total = sum(counts)
    if total and len(_floats(node, "prob_a")):
        raise GradientError(
            "the probabilities of SVMClassifier have no gradient",
            where=describe(node),
            why="they are found by an iteration that stops when it is near enough",
            fix="export the classifier without prob_a and prob_b: its scores are decision values then",
        )
    names = node.attributes.get_ints("classlabels_ints", []) or node.attributes.get_strings("classlabels_strings", [])
    classes = max(len(names), 1)
    if not total:
        weights = _floats(node, "coefficients").reshape(classes, -1)
        return through(op, node, [None, dz], lambda op, x: (None, _decide(op, node, x, dz, weights, 0)))
    weights = _of_pairs(_floats(node, "coefficients").reshape(-1, total), counts)

    def forward(op: Builder, x: ir.Value) -> tuple[None, ir.Value]:
        z = _decide(op, node, x, dz, weights, total)
        return None, op.Concat(op.Neg(z), z, axis=1) if classes == 2 else z

    return through(op, node, [None, dz], forward)


def _require_plain(node: ir.Node) -> None:
    transform = node.attributes.get_string("post_transform", "NONE")
    if transform != "NONE":
        raise GradientError(f"no gradient for post_transform {transform!r}", where=describe(node), fix="use NONE")


def _floats(node: ir.Node, name: str) -> np.ndarray:
    return np.asarray(node.attributes.get_floats(name, []), np.float32)


def _of_pairs(coefficients: np.ndarray, counts: list[int]) -> np.ndarray:
    """[pairs of classes, vectors]: of classes i < j, row j - 1 for the vectors of i, and row i for those of j."""
    ends = np.cumsum(counts)
    own = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    rows = []
    for i in range(len(counts)):
        for j in range(i + 1, len(counts)):
            row = np.zeros(coefficients.shape[1], np.float32)
            row[own[i]], row[own[j]] = coefficients[j - 1, own[i]], coefficients[i, own[j]]
            rows.append(row)
    return np.stack(rows)


def _decide(op: Builder, node: ir.Node, x: ir.Value, dy: ir.Value, weights: np.ndarray, count: int) -> ir.Value:
    """k(x, s) weights^T + rho, [samples, rows of weights]; without vectors (count = 0) x stands for the kernels."""
    assert dy.dtype is not None
    x = x if x.dtype == dy.dtype else op.Cast(x, to=int(dy.dtype))
    x = op.Unsqueeze(x, [0]) if rank(x) == 1 else x
    rho = _floats(node, "rho")
    if count:
        x = _kernel(op, node, x, _floats(node, "support_vectors").reshape(count, -1))
    else:
        rho = rho[:1]
    return op.Add(op.MatMul(x, _constant(op, weights.T, x)), _constant(op, rho, x))


def _kernel(op: Builder, node: ir.Node, x: ir.Value, vectors: np.ndarray) -> ir.Value:
    """k(x, s) of each sample and each vector."""
    kind = node.attributes.get_string("kernel_type", "LINEAR").upper()
    gamma, shift, degree = [*node.attributes.get_floats("kernel_params", []), 0.0, 0.0, 0.0][:3]
    if kind == "RBF":
        center = vectors.mean(axis=0)  # distances do not change, and lose fewer digits
        x, vectors = op.Sub(x, _constant(op, center, x)), vectors - center
        squares = op.Add(op.ReduceSumSquare(x, [1], keepdims=1), _constant(op, (vectors**2).sum(axis=1), x))
        distance = op.Sub(squares, op.Mul(op.MatMul(x, _constant(op, vectors.T, x)), 2.0))
        return op.Exp(op.Mul(distance, -gamma))
    products = op.MatMul(x, _constant(op, vectors.T, x))
    if kind == "LINEAR":
        return products
    scaled = op.Add(op.Mul(products, gamma), shift)
    return op.Tanh(scaled) if kind == "SIGMOID" else op.Pow(scaled, float(int(degree)))


def _constant(op: Builder, numbers: np.ndarray, like: ir.Value) -> ir.Value:
    assert like.dtype is not None
    return op.constant(numbers.astype(like.dtype.numpy()))
