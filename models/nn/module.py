"""Modules: what holds parameters and other modules under names."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from typing import ParamSpec, Self, TypeVar

import numpy as np

from onnxgrad.engine.errors import InputError, OptionError
from onnxgrad.grad.tape.state import STATE
from onnxgrad.grad.tape.tensor import Tensor
from onnxgrad.models.nn.files import read_tensors, write_tensors

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Kind = TypeVar("_Kind", bound=Tensor)
_UNUSED = "num_batches_tracked"
"""What PyTorch's BatchNorm keeps besides, and reads only where it has no momentum."""


class Parameter(Tensor):
    """A tensor that a module is to be trained by: `Parameter(array)`, as `Tensor(array)`."""

    __slots__ = ()

    @property
    def source_name(self) -> str:
        """See Source."""
        return "parameter"


class Buffer(Tensor):
    """A tensor that is part of a module's state and is not trained, such as running statistics."""

    __slots__ = ()

    @property
    def source_name(self) -> str:
        """See Source."""
        return "buffer"


class Module:
    """Something with parameters that is called like a function.

    A subclass sets Parameters, Buffers and modules (also lists, tuples and dicts of them) as attributes in `__init__`,
    and defines `__call__`. A parameter is called by the way to it: "layers.0.weight". `training` says whether dropout
    is active and normalizations use the batch; `train()` and `eval()` set it for all modules inside.

    A function that og.trace has captured is captured anew when an attribute of a module that it calls has changed.
    """

    training: bool = True
    _edits: int = 0
    _has_containers: bool = False

    def __init_subclass__(cls) -> None:
        if "forward" in vars(cls) and "__call__" not in vars(cls):
            raise OptionError(f"module {cls.__name__} cannot be called", fix="rename its method forward to __call__")
        call = vars(cls).get("__call__")
        if call is not None:
            cls.__call__ = _seen_by_tracer(call)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name != "training":
            object.__setattr__(self, "_edits", self._edits + 1)
        if isinstance(value, list | dict):
            object.__setattr__(self, "_has_containers", True)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        object.__setattr__(self, "_edits", self._edits + 1)

    @property
    def trace_version(self) -> int:
        """See Traceable: `training`, how often another attribute was set, and what lists and dicts hold now."""
        version = 2 * self._edits + self.training
        if not self._has_containers:
            return version
        return hash((version, *[_contents(value) for value in vars(self).values() if isinstance(value, list | dict)]))

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Names and parameters, in the order in which they were set; one that has two names comes once."""
        return _once(self._named(Parameter))

    def parameters(self) -> list[Parameter]:
        """The parameters, each once."""
        return [parameter for _, parameter in self.named_parameters()]

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """Names and buffers, each once."""
        return _once(self._named(Buffer))

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Names of parameters and buffers, with all names of those that have several."""
        return self._named(Tensor)

    def modules(self) -> Iterator[Module]:
        """This module and all inside, each once, from the outside in."""
        seen: dict[int, Module] = {}
        pending: list[Module] = [self]
        while pending:
            module = pending.pop()
            if id(module) not in seen:
                seen[id(module)] = module
                pending.extend(
                    reversed([child for _, child in _members(vars(module), "") if isinstance(child, Module)])
                )
        return iter(seen.values())

    def train(self, mode: bool = True) -> Self:
        """Set `training` here and in all modules inside. Returns itself."""
        for module in self.modules():
            if module.training != mode:
                module.training = mode
        return self

    def eval(self) -> Self:
        """train(False)."""
        return self.train(False)

    def to(self, device: str | None = None, dtype: object = None) -> Self:
        """Put parameters and buffers on a device, or make those of floats another dtype. Returns itself.

        They are new tensors: optimizers and gradient managers are to be given them afterwards.
        """
        made: dict[int, Tensor] = {}
        for module in self.modules():
            for name, value in list(vars(module).items()):
                setattr(module, name, _converted(value, device, dtype, made))
        return self

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of all parameters and buffers, by name."""
        return {name: np.array(tensor.numpy()) for name, tensor in self.named_tensors()}

    def load_state_dict(self, state: Mapping[str, object], strict: bool = True) -> None:
        """Set parameters and buffers from arrays (or tensors of any library) by name; dtypes are converted.

        strict: all names must be there, and no others but PyTorch's counts of batches.

        Raises: InputError naming all that does not fit, and nothing is changed then.
        """
        own = dict(self.named_tensors())
        arrays = {name: _array(value) for name, value in state.items() if name in own}
        wrong = [
            f"{name} is {list(array.shape)}, not {list(own[name].shape or ())}"
            for name, array in arrays.items()
            if array.shape != own[name].shape
        ]
        missing = [name for name in own if name not in state] if strict else []
        extra = [name for name in state if name not in own and not name.endswith(_UNUSED)] if strict else []
        parts = [
            f"missing {', '.join(missing)}" if missing else "",
            f"unexpected {', '.join(extra)}" if extra else "",
            f"of wrong shape: {', '.join(wrong)}" if wrong else "",
        ]
        if any(parts):
            why = "; ".join(part for part in parts if part)
            fix = "" if wrong else "strict=False takes what there is"
            raise InputError(f"the state does not fit {type(self).__name__}", why=why, fix=fix)
        for name, array in arrays.items():
            own[name].set(array)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a safetensors file, as a whole or not at all."""
        write_tensors(path, self.state_dict())

    def load(self, path: str | os.PathLike[str], strict: bool = True) -> None:
        """Read the state from a safetensors file. Raises: InputError as `load_state_dict`, or for a damaged file."""
        self.load_state_dict(read_tensors(path), strict)

    def _named(self, kind: type[_Kind]) -> Iterator[tuple[str, _Kind]]:
        return _walk(self, "", kind, ())

    def __repr__(self) -> str:
        inner = [(name, child) for name, child in _members(vars(self), "") if isinstance(child, Module)]
        lines = [line for name, child in inner for line in f"{name}: {child!r}".splitlines()]
        return "\n".join([f"{type(self).__name__}({self._describe()})", *(f"  {line}" for line in lines)])

    def _describe(self) -> str:
        own = [
            (name, value)
            for name, value in _members(vars(self), "")
            if isinstance(value, Tensor) and name in vars(self)
        ]
        return ", ".join(f"{name}: {list(value.shape or ())}" for name, value in own)


def _seen_by_tracer(call: Callable[_P, _R]) -> Callable[_P, _R]:
    """`call`, which a tracer is told of: names of parameters, and what it depends on, are those of the module."""

    @functools.wraps(call)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if STATE.tracer is not None and isinstance(args[0], Module):
            STATE.tracer.enter(args[0])
        return call(*args, **kwargs)

    return wrapper


def _contents(value: object) -> tuple[object, ...]:
    """Which objects lists and dicts hold, down to those that are neither."""
    if isinstance(value, dict):
        return (dict, *[(key, _contents(entry)) for key, entry in value.items()])
    if isinstance(value, list | tuple):
        return (list, *map(_contents, value))
    return (id(value),)


def _members(values: Mapping[str, object], prefix: str) -> Iterator[tuple[str, Tensor | Module]]:
    """Tensors and modules among values, also in lists, tuples and dicts."""
    for name, value in values.items():
        label = f"{prefix}{name}"
        if isinstance(value, Parameter | Buffer | Module):
            yield label, value
        elif isinstance(value, list | tuple):
            yield from _members({str(index): entry for index, entry in enumerate(value)}, f"{label}.")
        elif isinstance(value, dict):
            yield from _members({str(key): entry for key, entry in value.items()}, f"{label}.")


def _walk(module: Module, prefix: str, kind: type[_Kind], path: tuple[Module, ...]) -> Iterator[tuple[str, _Kind]]:
    for name, value in _members(vars(module), prefix):
        if isinstance(value, kind):
            yield name, value
        elif isinstance(value, Module) and not any(outer is value for outer in (*path, module)):
            yield from _walk(value, f"{name}.", kind, (*path, module))


def _once(named: Iterator[tuple[str, _Kind]]) -> Iterator[tuple[str, _Kind]]:
    seen: set[int] = set()
    for name, tensor in named:
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor


def _converted(value: object, device: str | None, dtype: object, made: dict[int, Tensor]) -> object:
    """The value with its tensors converted, each once; `made` are those that were, by id."""
    if isinstance(value, Parameter | Buffer):
        kind = value.element_type
        wanted = dtype if kind is not None and kind.is_floating_point() else None
        return made.setdefault(id(value), type(value)(value, wanted, device))
    if isinstance(value, list | tuple):
        return type(value)(_converted(entry, device, dtype, made) for entry in value)
    if isinstance(value, dict):
        return {key: _converted(entry, device, dtype, made) for key, entry in value.items()}
    return value


def _array(value: object) -> np.ndarray:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)
