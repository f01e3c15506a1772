"""onnxgrad: load, optimize, run, differentiate, fine-tune and export ONNX models.

    import onnxgrad as og

Names are imported when they are first used, so that `import onnxgrad` itself is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers and editors see: the same names as in the two tables
    from onnxgrad import models as models
    from onnxgrad.engine import errors as errors
    from onnxgrad.importers.onnx import load as load

__version__ = "0.1.0"

# Public modules, and public functions and classes with the module that defines them.
_MODULES: dict[str, str] = {
    "errors": "onnxgrad.engine.errors",
    "models": "onnxgrad.models",
}
_EXPORTS: dict[str, str] = {
    "load": "onnxgrad.importers.onnx",
}

__all__ = ["__version__", *sorted(_MODULES | _EXPORTS)]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    """Import the public name on first use (PEP 562)."""
    value: object
    if name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), name)
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    else:
        raise AttributeError(f"module 'onnxgrad' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
