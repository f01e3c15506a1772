"""Operators of ai.onnx.preview, differentiated by their function bodies."""

from collections.abc import Mapping

from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info

from tests.grad.checks import Case

SHAPES = ((1, 2, 2, 3), (1, 1, 3, 3), (1, 1, 3, 2))
SCORES = [make_tensor_value_info(name, TensorProto.DOUBLE, ["B", "H", "L", "S"]) for name in ("s", "t")]
MODIFIED = {"score_mod": make_graph([make_node("Tanh", ["s"], ["t"])], "score_mod", SCORES[:1], SCORES[1:])}


def _flex_attention(name: str, attributes: Mapping[str, object]) -> Case:
    # onnxruntime does not know the operator; sub-graphs are written for one dtype
    domain = "ai.onnx.preview"
    return Case("FlexAttention", SHAPES, attributes, name, op_domain=domain, opset=26, runs32=False, half=False)


CASES = [_flex_attention("FlexAttention", {}), _flex_attention("FlexAttention-score_mod", MODIFIED)]
