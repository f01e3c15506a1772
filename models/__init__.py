"""Models: the catalog of real models and data sets, reference architectures, fine-tuning."""

from onnxgrad.models.catalog import entries, pull

__all__ = ["entries", "pull"]
