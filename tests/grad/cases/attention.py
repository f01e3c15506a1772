"""Cases for grad/rules/attention.py, and for operators near to it whose function bodies are differentiated."""

from typing import Any

import numpy as np
import onnx

from tests.grad.checks import Case

Q4, K4, V4 = (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2)  # batch, heads, sequence, size
LENGTHS = np.array([5, 3])
NOTHING = np.array([[True] * 5, [False] * 5, [True] * 5])
MASK = np.array([[True, True, False, True, True]] * 2 + [[False] * 4 + [True]])


def attention(*inputs, name="", outputs=1, seeded=None, opset=24, fixed=(), runs32=True, **attributes) -> Case:
    spelled = ",".join(f"{k}={v}" for k, v in attributes.items())
    return Case(
        "Attention",
        inputs,
        attributes,
        outputs=outputs,
        seeded=seeded,
        opset=opset,
        fixed=fixed,
        runs32=runs32,
        name=f"Attention-{opset}({name},{spelled})",
        domain=(-1.0, 1.0),
    )


# Not in onnxruntime yet; their function bodies compute in float32, too coarse for second differences.
NEW: dict[str, Any] = {"opset": 27, "runs32": False, "tolerance": 1e-5, "second": False}


def linear_attention(rule, decay=False, beta=False) -> Case:
    inputs = [(2, 3, 8), (2, 3, 4), (2, 3, 6), (2, 2, 2, 3), (2, 3, 2) if decay else None, (2, 3, 2) if beta else None]
    heads = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}
    name = f"LinearAttention-{rule}"
    return Case("LinearAttention", inputs, heads, outputs=2, domain=(-1.0, 0.0), name=name, **NEW)


def mha(*inputs, name="", outputs=1, runs32=True, **attributes) -> Case:
    spelled = f"MultiHeadAttention-{name}{attributes or ''}"
    attributes |= {"num_heads": 2}
    return Case(
        "MultiHeadAttention",
        inputs,
        attributes,
        outputs=outputs,
        op_domain="com.microsoft",
        name=spelled,
        domain=(-1.0, 1.0),
        runs32=runs32,
    )


CASES = [
    attention(Q4, K4, V4),
    attention(Q4, K4, V4, opset=23),
    attention(Q4, K4, V4, scale=0.3, softcap=2.0),
    attention(Q4, K4, V4, is_causal=1),
    attention(Q4, K4, V4, MASK, name="bool mask"),
    attention(Q4, K4, V4, (3, 5), name="float mask"),
    attention(Q4, K4, V4, (2, 1, 3, 5), name="float mask 4-D", is_causal=1),
    attention((2, 4, 3, 4), K4, V4, name="groups"),
    attention((2, 3, 8), (2, 5, 8), (2, 5, 4), name="3-D", q_num_heads=2, kv_num_heads=2),
    attention((2, 3, 16), (2, 5, 8), (2, 5, 4), name="3-D groups", q_num_heads=4, kv_num_heads=2, is_causal=1),
    attention(Q4, K4, V4, None, (2, 2, 2, 4), (2, 2, 2, 2), name="past", outputs=3),
    attention(Q4, K4, V4, (3, 7), (2, 2, 2, 4), (2, 2, 2, 2), name="past mask", outputs=3, is_causal=1),
    attention(Q4, K4, V4, (3, 4), name="short mask", runs32=False),
    attention(Q4, K4, V4, MASK[:, :3], name="short bool mask", runs32=False),
    attention(Q4, K4, V4, NOTHING, name="row without keys"),
    attention(Q4, K4, V4, np.where(MASK, 0.0, -np.inf), name="infinite mask", fixed=(3,)),
    attention(Q4, K4, V4, None, None, None, LENGTHS, name="lengths", is_causal=1),
    attention(Q4, K4, V4, opset=25, left_window_size=1, right_window_size=1, runs32=False),  # no kernel yet
    attention(Q4, K4, V4, softmax_precision=onnx.TensorProto.DOUBLE),
    *(attention(Q4, K4, V4, (3, 5), outputs=4, seeded=(0, 3), qk_matmul_output_mode=mode) for mode in range(4)),
    linear_attention("linear"),
    linear_attention("gated", decay=True),
    linear_attention("delta", beta=True),
    linear_attention("gated_delta", decay=True, beta=True),
    Case("CausalConvWithState", ((2, 3, 4), (3, 1, 2), (3,)), outputs=2, **NEW),
    Case("CausalConvWithState", ((2, 3, 4), (3, 1, 3), None, (2, 3, 2)), {"activation": "silu"}, outputs=2, **NEW),
    mha((2, 3, 8), (2, 5, 8), (2, 5, 4)),
    mha((2, 3, 8), (2, 3, 8), (2, 3, 8), scale=0.2, unidirectional=1),
    mha((2, 3, 8), (2, 5, 8), (2, 5, 4), (20,), name="bias"),
    mha((2, 3, 8), (2, 5, 8), (2, 5, 8), None, np.array([[1, 1, 1, 0, 1], [1, 0, 0, 0, 0]], np.int32), name="keys"),
    mha((2, 3, 8), (2, 5, 8), (2, 5, 8), None, np.array([5, 2], np.int32), name="lengths"),
    mha((2, 3, 8), (2, 5, 8), (2, 5, 8), None, None, (1, 2, 3, 5), name="added"),
    mha((2, 3, 2, 3, 4), name="packed", runs32=False),
    mha((2, 3, 8), (2, 5, 2, 2, 4), name="packed keys", runs32=False),
    mha((2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 4), name="keys by heads"),
    mha((2, 3, 8), (2, 3, 8), (2, 3, 8), *[None] * 3, (2, 2, 4, 4), (2, 2, 4, 4), name="past", outputs=3),
]
