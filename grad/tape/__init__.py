"""The imperative mode: tensors that run at once, and a tape of their gradients."""
