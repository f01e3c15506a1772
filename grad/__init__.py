"""Derivatives of ONNX graphs: a table of rules, the reverse and forward walks, losses, optimizers, training graphs."""
