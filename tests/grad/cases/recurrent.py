"""Cases of grad/rules/recurrent.py and lstm.py."""

import numpy as np

from tests.grad.checks import Case, Input

T, N, D, H = 3, 2, 2, 2
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LENS = np.array([3, 1], np.int32)
EMPTY = np.array([3, 0], np.int32)


def recurrent(op_type, *, lens=None, bias=True, states=True, peepholes=False, name="", **options):
    """A case with small weights; `options`: attributes, or fields of Case."""
    fields = {key: options.pop(key) for key in ("seeded", "runs32", "second", "half", "opset") if key in options}
    directions = 2 if options.get("direction") == "bidirectional" else 1
    rows, layout = GATES[op_type] * H, options.get("layout", 0)
    state = (N, directions, H) if layout else (directions, N, H)
    inputs: list[Input] = [(N, T, D) if layout else (T, N, D), (directions, rows, D), (directions, rows, H)]
    inputs += [(directions, 2 * rows) if bias else None, lens, state if states else None]
    if op_type == "LSTM":
        inputs += [state if states else None, (directions, 3 * H) if peepholes else None]
    spelled = "-".join(f"{key}={value}" for key, value in options.items())
    extra = "".join(f"-{word}" for word, used in (("lens", lens is not None), ("peepholes", peepholes)) if used)
    bare = "" if bias and states else "-bare"
    return Case(
        op_type,
        inputs,
        {"hidden_size": H, **options},
        name=f"{op_type}-{spelled or 'plain'}{extra}{bare}{name}",
        outputs=3 if op_type == "LSTM" else 2,
        domain=(-1, 1),
        **fields,
    )


CASES = [
    *(recurrent(op_type) for op_type in GATES),
    *(recurrent(op_type, lens=LENS, direction="bidirectional", second=False) for op_type in GATES),
    *(recurrent(op_type, lens=LENS, direction="reverse") for op_type in GATES),
    *(recurrent(op_type, lens=EMPTY, name="-empty", second=False) for op_type in GATES),
    *(recurrent(op_type, bias=False, states=False, seeded=[0], second=False) for op_type in GATES),
    *(recurrent(op_type, seeded=[1], second=False, name="-Y_h") for op_type in GATES),
    *(recurrent(op_type, layout=1, direction="reverse", runs32=False, second=False) for op_type in GATES),
    *(recurrent(op_type, clip=0.6, second=False) for op_type in GATES),
    recurrent("GRU", linear_before_reset=1),
    recurrent("GRU", linear_before_reset=1, lens=LENS, direction="bidirectional", second=False),
    recurrent("GRU", linear_before_reset=1, activations=["HardSigmoid", "Softsign"], second=False),
    recurrent("LSTM", seeded=[2], second=False, name="-Y_c"),
    recurrent("LSTM", peepholes=True),
    recurrent("LSTM", peepholes=True, lens=LENS, direction="bidirectional", second=False),
    recurrent("LSTM", input_forget=1),
    recurrent("LSTM", input_forget=1, peepholes=True, clip=0.9, second=False),
    recurrent("LSTM", activations=["Sigmoid", "ScaledTanh", "Elu"], activation_alpha=[1.2, 0.8], activation_beta=[0.7]),
    recurrent("RNN", direction="bidirectional", activations=["LeakyRelu", "Affine"], activation_alpha=[0.1, 0.7]),
    *(
        recurrent("RNN", activations=[name], activation_alpha=[0.4], activation_beta=[0.3], second=name == "Softplus")
        for name in ("Affine", "ScaledTanh", "HardSigmoid", "Elu", "ThresholdedRelu", "LeakyRelu", "Softplus")
    ),
    recurrent("GRU", activations=["hardsigmoid", "relu"], second=False, opset=18),
]
