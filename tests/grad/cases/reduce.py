"""Reductions and cumulative sums and products."""

import numpy as np

from tests.grad.checks import Case

AWAY = (0.3, 2.0)
LAST, OUTER = np.array([-1]), np.array([0, 2])
NONE = np.array([], np.int64)
ZEROS = np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.5], [1.0, -2.0, 0.5]])
TIES = np.array([[1.0, 1.0, 3.0], [2.0, 0.5, -1.0]])


def _reductions(op_type: str, domain: tuple[float, float] = AWAY) -> list[Case]:
    """The ways in which axes can be given."""
    scalar = [Case(op_type, ((),), domain=domain, name=f"{op_type}-scalar")]
    return [
        *(scalar if op_type != "ReduceLogSumExp" else []),  # the reference evaluator fails on a scalar
        Case(op_type, ((2, 3), LAST), domain=domain, name=f"{op_type}-last"),
        Case(op_type, ((2, 3, 2), OUTER), {"keepdims": 0}, domain=domain, name=f"{op_type}-outer"),
        Case(op_type, ((2, 3),), {"keepdims": 0}, domain=domain, name=f"{op_type}-all"),
        Case(op_type, ((2, 3),), domain=domain, name=f"{op_type}-all-kept"),
        Case(op_type, ((2, 3), NONE), {"keepdims": 0}, domain=domain, name=f"{op_type}-empty-axes"),
        Case(
            op_type,
            ((2, 3), NONE),
            {"noop_with_empty_axes": 1, "keepdims": 0},
            domain=domain,
            name=f"{op_type}-noop",
        ),
    ]


CASES = [
    *_reductions("ReduceSum", (-2.0, 2.0)),
    *_reductions("ReduceMean", (-2.0, 2.0)),
    *_reductions("ReduceMax", (-2.0, 2.0)),
    *_reductions("ReduceMin", (-2.0, 2.0)),
    *_reductions("ReduceL1"),
    *_reductions("ReduceL2"),
    *_reductions("ReduceSumSquare", (-2.0, 2.0)),
    *_reductions("ReduceLogSum"),
    *_reductions("ReduceLogSumExp", (-2.0, 2.0)),
    *_reductions("ReduceProd"),
    Case("ReduceProd", (ZEROS, LAST), name="ReduceProd-zeros"),
    Case("ReduceProd", (ZEROS,), {"keepdims": 0}, name="ReduceProd-zeros-all"),
    Case("ReduceProd", ((1, 7), np.array([1])), domain=AWAY, name="ReduceProd-seven"),
    Case("ReduceSum", ((0, 3), np.array([0])), {"keepdims": 0}, name="ReduceSum-zero-size"),
    Case("ReduceMean", ((2, 0), np.array([0])), name="ReduceMean-zero-size"),
    Case("CumSum", ((2, 3), np.array(1))),
    Case("CumSum", ((2, 3), np.array(-2)), {"exclusive": 1}),
    Case("CumSum", ((2, 3), np.array(1)), {"reverse": 1}),
    Case("CumSum", ((2, 3), np.array(1)), {"reverse": 1, "exclusive": 1}),
    # onnxruntime knows no CumProd
    Case("CumProd", (ZEROS, np.array(1)), opset=26, runs32=False),
    Case("CumProd", (ZEROS, np.array(0)), {"exclusive": 1}, opset=26, runs32=False),
    Case("CumProd", (ZEROS, np.array(-1)), {"reverse": 1}, opset=26, runs32=False),
    Case("CumProd", (ZEROS, np.array(1)), {"reverse": 1, "exclusive": 1}, opset=26, runs32=False),
    Case("CumProd", ((1, 6), np.array(1)), opset=26, runs32=False, name="CumProd-six"),
]
