"""A function in two parts: an encoder runs, Python looks at what it made, and the decoder goes on from there.

    python examples/two_parts.py

The second part uses values that the first has computed. They stay on the device: nothing is computed or copied twice.
"""

import numpy as np

import onnxgrad as og


def main() -> list[int]:
    """Encode batches, choose a temperature for each from its entropy, decode with it; returns the sizes of batches."""
    rng = np.random.default_rng(0)
    graph = og.Graph("two parts")
    x = graph.input("x", "float32", ("batch", 32))
    temperature = graph.input("temperature", "float32", ())

    weights = [og.SharedTensor((rng.standard_normal((32, 32)) / 4).astype(np.float32)) for _ in range(3)]
    code = x
    for weight in weights[:2]:
        code = og.op.Tanh(code @ weight)
    logits = code @ weights[2]
    probability = og.op.Softmax(logits)
    entropy = -(probability * og.op.Log(probability)).sum(axis=1).mean()
    answer = og.op.ArgMax(og.op.Softmax(logits / temperature), axis=1, keepdims=0)
    sharpness = og.op.Softmax(logits / temperature).max(axis=1).mean()

    encode, decode = graph.compile_multi_part(
        [
            ([x], og.copy_output(entropy)),
            ([temperature], [og.copy_output(answer), og.copy_output(sharpness)]),
        ]
    )
    for name, part in (("encode", encode), ("decode", decode)):
        nodes = part.dump()["nodes"]
        print(f"{name} computes {len(nodes)} operators and takes {', '.join(var.name for var in part.inputs)}")

    sizes = []
    for size, scale in ((4, 0.2), (8, 1.0), (16, 5.0)):
        before = encode((rng.standard_normal((size, 32)) * scale).astype(np.float32))
        chosen = np.float32(0.3 if before > 3.2 else 1.0)
        answers, sharp = decode(chosen)
        print(f"{size:3} rows: entropy {before:.2f}, so temperature {chosen:.1f}: largest probability {sharp:.2f}")
        sizes.append(len(answers))
    try:
        decode(chosen)
    except og.errors.GraphError as error:
        print(f"out of turn: {error.what}")
    return sizes


if __name__ == "__main__":
    main()
