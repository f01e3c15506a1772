"""Types and shapes of those operators of ai.onnx.ml that onnx_shape_inference lacks and that have gradients."""

from collections.abc import Sequence

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

ML = "ai.onnx.ml"


def collect_classical_rules() -> None:
    """Fill `onnx_shape_inference.registry` with the rules of this file."""
    for op_type, rule in (
        ("Scaler", _float_like_first),
        ("Normalizer", _float_like_first),
        ("Imputer", _like_first),
        ("LinearRegressor", _linear_regressor),
        ("LinearClassifier", _linear_classifier),
        ("SVMRegressor", _svm_regressor),
        ("SVMClassifier", _svm_classifier),
        ("FeatureVectorizer", _feature_vectorizer),
    ):
        registry.register(ML, op_type, since_version=1)(rule)


def _like_first(context: ShapeInferenceContext, node: ir.Node) -> None:
    x = node.inputs[0]
    if x is not None:
        context.set_shape_and_dtype(node.outputs[0], x.shape, x.dtype)


def _float_like_first(context: ShapeInferenceContext, node: ir.Node) -> None:
    x = node.inputs[0]
    context.set_shape_and_dtype(node.outputs[0], None if x is None else x.shape, ir.DataType.FLOAT)


def _rows(context: ShapeInferenceContext, node: ir.Node) -> int | ir.SymbolicDim:
    """How many samples the first input holds: a vector is one."""
    x = node.inputs[0]
    if x is None or x.shape is None:
        dim: ir.SymbolicDim = context.new_symbolic_dim()
        return dim
    return x.shape[0] if len(x.shape) > 1 else 1


def _linear_regressor(context: ShapeInferenceContext, node: ir.Node) -> None:
    shape = ir.Shape([_rows(context, node), node.attributes.get_int("targets", 1)])
    context.set_shape_and_dtype(node.outputs[0], shape, ir.DataType.FLOAT)


def _linear_classifier(context: ShapeInferenceContext, node: ir.Node) -> None:
    _classifier(context, node, len(_labels(node)))


def _svm_regressor(context: ShapeInferenceContext, node: ir.Node) -> None:
    context.set_shape_and_dtype(node.outputs[0], ir.Shape([_rows(context, node), 1]), ir.DataType.FLOAT)


def _svm_classifier(context: ShapeInferenceContext, node: ir.Node) -> None:
    """Scores: of each class, or of each pair of classes where there are support vectors and no probabilities."""
    classes = len(_labels(node))
    of_pairs = sum(node.attributes.get_ints("vectors_per_class", [])) and not node.attributes.get_floats("prob_a", [])
    _classifier(context, node, classes * (classes - 1) // 2 if of_pairs and classes > 2 else classes)


def _labels(node: ir.Node) -> Sequence[object]:
    return node.attributes.get_strings("classlabels_strings", []) or node.attributes.get_ints("classlabels_ints", [])


def _classifier(context: ShapeInferenceContext, node: ir.Node, scores: int) -> None:
    rows = _rows(context, node)
    has_strings = bool(node.attributes.get_strings("classlabels_strings", []))
    kind = ir.DataType.STRING if has_strings else ir.DataType.INT64
    context.set_shape_and_dtype(node.outputs[0], ir.Shape([rows]), kind)
    if len(node.outputs) > 1:
        context.set_shape_and_dtype(node.outputs[1], ir.Shape([rows, scores]), ir.DataType.FLOAT)


def _feature_vectorizer(context: ShapeInferenceContext, node: ir.Node) -> None:
    shape = ir.Shape([_rows(context, node), sum(node.attributes.get_ints("inputdimensions", []))])
    context.set_shape_and_dtype(node.outputs[0], shape, ir.DataType.FLOAT)
