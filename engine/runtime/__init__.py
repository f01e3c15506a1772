"""Running models with onnxruntime: providers, sessions, values, state."""
