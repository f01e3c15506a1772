"""Models: the catalog of real models and data sets, reference architectures, fine-tuning.

The catalog is light, and there at once; the rest is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from onnxgrad.models.catalog import entries, pull

if TYPE_CHECKING:  # the same names as in the table
    from onnxgrad.models.finetune.head import add_head, head_of, replace_head

_EXPORTS = {
    "add_head": "onnxgrad.models.finetune.head",
    "head_of": "onnxgrad.models.finetune.head",
    "replace_head": "onnxgrad.models.finetune.head",
}

__all__ = ["add_head", "entries", "head_of", "pull", "replace_head"]


def __getattr__(name: str) -> object:
    """Import the public name on first use (PEP 562)."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value
