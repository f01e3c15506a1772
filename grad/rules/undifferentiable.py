"""Operators declared without a gradient. Declarations that belong to a family stand with its rules."""

from onnxgrad.grad.registry import no_gradient

no_gradient("Ceil", "Floor", "Round", "Sign", reason="piecewise constant: zero almost everywhere")
