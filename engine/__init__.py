"""The engine: ONNX graphs are built, optimized, cut into regions, run. It knows nothing of files and gradients."""
