"""Types and shapes of those operators of ai.onnx.ml that onnx_shape_inference lacks and that have gradients."""

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
    rows = _rows(context, node)
    names = node.attributes.get_strings("classlabels_strings", [])
    numbers = node.attributes.get_ints("classlabels_ints", [])
    kind = ir.DataType.STRING if names else ir.DataType.INT64
    context.set_shape_and_dtype(node.outputs[0], ir.Shape([rows]), kind)
    if len(node.outputs) > 1:
        shape = ir.Shape([rows, len(names) or len(numbers)])
        context.set_shape_and_dtype(node.outputs[1], shape, ir.DataType.FLOAT)


def _feature_vectorizer(context: ShapeInferenceContext, node: ir.Node) -> None:
    shape = ir.Shape([_rows(context, node), sum(node.attributes.get_ints("inputdimensions", []))])
    context.set_shape_and_dtype(node.outputs[0], shape, ir.DataType.FLOAT)
