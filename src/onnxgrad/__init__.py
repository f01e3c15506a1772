"""onnxgrad: load, optimize, run, differentiate, fine-tune and export ONNX models.

    import onnxgrad as og

Names are imported when they are first used, so that `import onnxgrad` itself is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # what type checkers and editors see: the same names as in the two tables
    from onnxgrad import models
    from onnxgrad.engine import errors
    from onnxgrad.engine.compile import compile
    from onnxgrad.engine.graph import op, plugins, tools
    from onnxgrad.engine.graph.callback import ValueProxy, lazy_callback
    from onnxgrad.engine.graph.compiled import GraphFunction
    from onnxgrad.engine.graph.graph import Graph
    from onnxgrad.engine.graph.outspec import copy_output
    from onnxgrad.engine.graph.shared_scalar import SharedScalar
    from onnxgrad.engine.graph.shared_tensor import SharedTensor
    from onnxgrad.engine.graph.update import add_update
    from onnxgrad.engine.graph.var import Var
    from onnxgrad.engine.optimize import optimization_report, optimize_for_inference, replaced
    from onnxgrad.engine.passes.preprocess import ImageInput
    from onnxgrad.exporters.onnx import save, to_proto
    from onnxgrad.exporters.report import summary
    from onnxgrad.grad import losses, optimizers
    from onnxgrad.grad.forward import jvp_model
    from onnxgrad.grad.gradient_model import gradient_model
    from onnxgrad.grad.registry import register_gradient
    from onnxgrad.grad.straight_through import straight_through
    from onnxgrad.grad.symbolic.gradients import gradients
    from onnxgrad.grad.symbolic.set_grad import current_grad_target, set_grad, stop_gradient, zero_grad
    from onnxgrad.grad.tape.function import Function
    from onnxgrad.grad.tape.grad import Grad
    from onnxgrad.grad.tape.grad_manager import GradManager
    from onnxgrad.grad.tape.no_grad import no_grad
    from onnxgrad.grad.tape.optimizer import TensorOptimizer
    from onnxgrad.grad.tape.tensor import Tensor
    from onnxgrad.grad.tape.trace import trace
    from onnxgrad.grad.training_graph import training_model
    from onnxgrad.importers.onnx import load
    from onnxgrad.models import nn
    from onnxgrad.models.finetune import schedule as schedules
    from onnxgrad.models.finetune.trainer import Trainer
    from onnxgrad.models.graph_files import load_graph, save_graph
    from onnxgrad.models.network import Network
    from onnxgrad.models.quantize import quantize

__version__ = "0.1.0"

# Public modules, and public functions and classes with the module that defines them.
_MODULES: dict[str, str] = {
    "errors": "onnxgrad.engine.errors",
    "losses": "onnxgrad.grad.losses",
    "models": "onnxgrad.models",
    "nn": "onnxgrad.models.nn",
    "op": "onnxgrad.engine.graph.op",
    "optimizers": "onnxgrad.grad.optimizers",
    "plugins": "onnxgrad.engine.graph.plugins",
    "schedules": "onnxgrad.models.finetune.schedule",
    "tools": "onnxgrad.engine.graph.tools",
}
_EXPORTS: dict[str, str] = {
    "Function": "onnxgrad.grad.tape.function",
    "Grad": "onnxgrad.grad.tape.grad",
    "GradManager": "onnxgrad.grad.tape.grad_manager",
    "Graph": "onnxgrad.engine.graph.graph",
    "GraphFunction": "onnxgrad.engine.graph.compiled",
    "ImageInput": "onnxgrad.engine.passes.preprocess",
    "Network": "onnxgrad.models.network",
    "SharedScalar": "onnxgrad.engine.graph.shared_scalar",
    "SharedTensor": "onnxgrad.engine.graph.shared_tensor",
    "Tensor": "onnxgrad.grad.tape.tensor",
    "TensorOptimizer": "onnxgrad.grad.tape.optimizer",
    "Trainer": "onnxgrad.models.finetune.trainer",
    "ValueProxy": "onnxgrad.engine.graph.callback",
    "Var": "onnxgrad.engine.graph.var",
    "add_update": "onnxgrad.engine.graph.update",
    "compile": "onnxgrad.engine.compile",
    "copy_output": "onnxgrad.engine.graph.outspec",
    "current_grad_target": "onnxgrad.grad.symbolic.set_grad",
    "gradient_model": "onnxgrad.grad.gradient_model",
    "gradients": "onnxgrad.grad.symbolic.gradients",
    "jvp_model": "onnxgrad.grad.forward",
    "lazy_callback": "onnxgrad.engine.graph.callback",
    "load": "onnxgrad.importers.onnx",
    "load_graph": "onnxgrad.models.graph_files",
    "no_grad": "onnxgrad.grad.tape.no_grad",
    "optimization_report": "onnxgrad.engine.optimize",
    "optimize_for_inference": "onnxgrad.engine.optimize",
    "quantize": "onnxgrad.models.quantize",
    "register_gradient": "onnxgrad.grad.registry",
    "replaced": "onnxgrad.engine.optimize",
    "save": "onnxgrad.exporters.onnx",
    "save_graph": "onnxgrad.models.graph_files",
    "set_grad": "onnxgrad.grad.symbolic.set_grad",
    "stop_gradient": "onnxgrad.grad.symbolic.set_grad",
    "straight_through": "onnxgrad.grad.straight_through",
    "summary": "onnxgrad.exporters.report",
    "to_proto": "onnxgrad.exporters.onnx",
    "trace": "onnxgrad.grad.tape.trace",
    "training_model": "onnxgrad.grad.training_graph",
    "zero_grad": "onnxgrad.grad.symbolic.set_grad",
}

__all__ = [  # written out for type checkers
    "Function",
    "Grad",
    "GradManager",
    "Graph",
    "GraphFunction",
    "ImageInput",
    "Network",
    "SharedScalar",
    "SharedTensor",
    "Tensor",
    "TensorOptimizer",
    "Trainer",
    "ValueProxy",
    "Var",
    "__version__",
    "add_update",
    "compile",
    "copy_output",
    "current_grad_target",
    "errors",
    "gradient_model",
    "gradients",
    "jvp_model",
    "lazy_callback",
    "load",
    "load_graph",
    "losses",
    "models",
    "nn",
    "no_grad",
    "op",
    "optimization_report",
    "optimize_for_inference",
    "optimizers",
    "plugins",
    "quantize",
    "register_gradient",
    "replaced",
    "save",
    "save_graph",
    "schedules",
    "set_grad",
    "stop_gradient",
    "straight_through",
    "summary",
    "to_proto",
    "tools",
    "trace",
    "training_model",
    "zero_grad",
]


if not TYPE_CHECKING:  # a type checker that saw this would let every name pass

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
