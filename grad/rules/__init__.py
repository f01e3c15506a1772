"""The gradient rules: importing this package fills the table of `onnxgrad.grad.registry`."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
