"""Normalizations over the last axes."""

from tests.grad.checks import Case

AWAY = (0.3, 2.0)
CONTRIB = "com.microsoft"

CASES = [
    # float64: Mean and InvStdDev are float32 in the standard, so only y is exact enough for differences
    Case("LayerNormalization", ((2, 4), (4,), (4,))),
    Case("LayerNormalization", ((2, 4), (4,)), name="LayerNormalization-no-bias"),
    Case("LayerNormalization", ((2, 2, 3), (2, 3), (3,)), {"axis": 1, "epsilon": 0.1}),
    Case("LayerNormalization", ((2, 3), ()), {"axis": 0}, name="LayerNormalization-all"),
    Case("LayerNormalization", ((2, 2, 3), (2, 1, 3), (1,)), {"axis": -1}, name="LayerNormalization-scale-of-batch"),
    Case("RMSNormalization", ((2, 4), (4,)), opset=23),
    Case("RMSNormalization", ((2, 2, 3), (2, 3)), {"axis": 1, "epsilon": 0.1}, opset=23),
    Case("RMSNormalization", ((2, 2, 3), (1,)), {"axis": -2}, opset=23, name="RMSNormalization-scalar-scale"),
    Case("SimplifiedLayerNormalization", ((2, 4), (4,))),
    Case("SimplifiedLayerNormalization", ((2, 2, 3), (2, 3)), {"axis": 1, "epsilon": 0.1}, outputs=2, half=False),
    Case("SkipLayerNormalization", ((2, 2, 4), (2, 2, 4), (4,), (4,), (4,)), op_domain=CONTRIB),
    Case("SkipLayerNormalization", ((1, 2, 4), (1, 2, 4), (4,)), op_domain=CONTRIB, name="SkipLayerNorm-plain"),
    Case("SkipLayerNormalization", ((2, 2, 4), (2, 4), (4,), (4,)), op_domain=CONTRIB, name="SkipLayerNorm-broadcast"),
    Case(
        "SkipLayerNormalization",
        ((2, 2, 4), (2, 2, 4), (4,), (4,), (4,)),
        {"epsilon": 0.1},
        outputs=4,
        seeded=[0, 3],  # onnxruntime on the CPU does not fill outputs 1 and 2
        op_domain=CONTRIB,
        name="SkipLayerNorm-with-sum",
    ),
    Case("SkipSimplifiedLayerNormalization", ((2, 2, 4), (2, 2, 4), (4,)), op_domain=CONTRIB),
    Case(
        "SkipSimplifiedLayerNormalization",
        ((2, 2, 4), (2, 2, 4), (4,), (4,)),
        op_domain=CONTRIB,
        name="SkipSimplifiedLayerNormalization-bias",
    ),
]
