"""Models: the catalog of real models and data sets, reference architectures, fine-tuning."""

from onnxgrad.models.catalog import entries, pull
from onnxgrad.models.finetune.head import add_head, head_of, replace_head

__all__ = ["add_head", "entries", "head_of", "pull", "replace_head"]
