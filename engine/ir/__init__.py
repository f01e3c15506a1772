"""What onnx_ir lacks: a builder that infers types and shapes, names, copies, opsets, serialization, invariants."""
