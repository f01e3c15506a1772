"""Smooth operators of ai.onnx.ml: scaling and linear models around which pipelines of classical learning are built."""

import numpy as np
import onnx_ir as ir

from onnxgrad.engine.errors import GradientError
from onnxgrad.engine.ir.builder import describe, rank
from onnxgrad.grad.registry import GradientBuilder, Grads, gradient

ML = "ai.onnx.ml"


def _constant(op: GradientBuilder, numbers: object, dtype: ir.DataType | None) -> ir.Value:
    return op.constant(np.asarray(numbers, np.float32).astype((dtype or ir.DataType.FLOAT).numpy()))


def _like(op: GradientBuilder, grad: ir.Value, x: ir.Value | None) -> ir.Value:
    """`grad` in the type of x: outputs are float32 whatever x is."""
    assert x is not None and x.dtype is not None
    return grad if grad.dtype == x.dtype else op.Cast(grad, to=int(x.dtype))


@gradient("Scaler", domain=ML)
def scaler(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = (x - offset) scale:  dx = dy scale"""
    scale = _constant(op, node.attributes.get_floats("scale", [1.0]), dy.dtype)
    return (_like(op, op.Mul(dy, scale), node.inputs[0]),)


@gradient("LinearRegressor", domain=ML)
def linear_regressor(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = f(x w^T + b):  dx = (dy f') w"""
    return (_linear(op, node, node.outputs[0], dy, node.attributes.get_int("targets", 1)),)


@gradient("LinearClassifier", domain=ML, note="scores only, with coefficients for every class")
def linear_classifier(op: GradientBuilder, node: ir.Node, dy: ir.Value | None, dz: ir.Value | None) -> Grads:
    """Scores z = f(x w^T + b):  dx = (dz f') w; labels have no gradient"""
    if dz is None:
        return (None,)
    labels = node.attributes.get_ints("classlabels_ints", []) or node.attributes.get_strings("classlabels_strings", [])
    intercepts = node.attributes.get_floats("intercepts", [])
    if len(intercepts) != len(labels):
        raise GradientError(
            "the gradient of LinearClassifier needs coefficients for every class",
            where=describe(node),
            why=f"{len(labels)} classes have {len(intercepts)} intercepts, and runtimes differ in what the rest scores",
            fix="export the classifier with one row of coefficients a class",
        )
    return (_linear(op, node, node.outputs[1], dz, len(labels)),)


def _linear(op: GradientBuilder, node: ir.Node, y: ir.Value, dy: ir.Value, rows: int) -> ir.Value:
    transform = node.attributes.get_string("post_transform", "NONE")
    if transform == "LOGISTIC":
        dy = op.Mul(dy, op.Mul(y, op.Sub(1.0, y)))
    elif transform == "SOFTMAX":
        product = op.Mul(y, dy)
        dy = op.Sub(product, op.Mul(y, op.ReduceSum(product, [-1], keepdims=1)))
    elif transform != "NONE":
        raise GradientError(
            f"no gradient for post_transform {transform!r}", where=describe(node), fix="use NONE, LOGISTIC or SOFTMAX"
        )
    weights = np.asarray(node.attributes.get_floats("coefficients", []), np.float32).reshape(rows, -1)
    return _like(op, op.MatMul(dy, _constant(op, weights, dy.dtype)), node.inputs[0])


@gradient("Normalizer", domain=ML, note="dy where the divisor is 0; MAX: elements that tie share equally")
def normalizer(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x / d, d = max(x), sum(|x|) or sqrt(sum(x^2)) of a row, and x where d = 0:  dx = (dy - d' sum(dy y)) / d"""
    x = node.inputs[0]
    (y,) = node.outputs
    norm = node.attributes.get_string("norm", "MAX").upper()
    wide = _like(op, x, y) if x is not None else y
    if norm == "MAX":
        divisor = op.ReduceMax(wide, [-1], keepdims=1)
        chosen = op.CastLike(op.Equal(wide, divisor), y)
        slope = op.Div(chosen, op.ReduceSum(chosen, [-1], keepdims=1))
    elif norm == "L1":
        divisor, slope = op.ReduceL1(wide, [-1], keepdims=1), op.Sign(wide)
    else:
        divisor, slope = op.ReduceL2(wide, [-1], keepdims=1), y
    through = op.Sub(dy, op.Mul(slope, op.ReduceSum(op.Mul(dy, y), [-1], keepdims=1)))
    return (_like(op, op.Where(op.Equal(divisor, 0.0), dy, op.Div(through, divisor)), x),)


@gradient("FeatureVectorizer", domain=ML)
def feature_vectorizer(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = the inputs side by side:  each gets its columns of dy"""
    sizes = [op.Shape(x, start=rank(x) - 1) for x in node.inputs if x is not None]
    parts = op.node("Split", dy, op.Concat(*sizes, axis=0), axis=1, outputs=len(sizes)) if len(sizes) > 1 else (dy,)
    shaped = (op.Reshape(part, op.shape_of(x)) for part, x in zip(parts, node.inputs, strict=True) if x is not None)
    return [_like(op, part, x) for part, x in zip(shaped, node.inputs, strict=True)]


@gradient("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(op: GradientBuilder, node: ir.Node, dz: ir.Value) -> Grads:
    """z = x at positions of its last axis:  dx = dz added at those positions"""
    x, positions = node.inputs
    assert x is not None
    index = op.Expand(op.Reshape(positions, [-1]), op.Shape(dz))
    dz = op.Reshape(dz, op.Concat(op.Shape(x, end=-1), [-1], axis=0)) if rank(x) != 2 else dz
    index = op.Reshape(index, op.Shape(dz))
    return op.ScatterElements(op.zeros_like(x), index, dz, axis=-1, reduction="add"), None


@gradient("Imputer", domain=ML, note="0 where the value is replaced")
def imputer(op: GradientBuilder, node: ir.Node, dy: ir.Value) -> Grads:
    """y = x, or the imputed value where x is missing:  dx = dy, or 0"""
    (x,) = node.inputs
    missing = node.attributes.get_float("replaced_value_float", 0.0)
    replaced = op.IsNaN(x) if np.isnan(missing) else op.Equal(x, missing)
    return (op.Where(replaced, 0.0, dy),)
