"""From the arguments of a call to feeds: by position or by name, with the values that inputs have already."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from onnxgrad.engine.errors import GraphError, InputError
from onnxgrad.engine.graph.host_tensor import HostTensor
from onnxgrad.engine.graph.var import Var
from onnxgrad.engine.runtime.call_signature import CallSignature, Feed
from onnxgrad.engine.runtime.feeds import FeedReader


class Arguments:
    """What a function takes: `host` are all inputs that it needs, in the order of the graph.

    `order`: the positional ones; None allows names only. An input that has a value already need not be given one.
    """

    def __init__(self, host: Mapping[str, tuple[Var, HostTensor]], signature: CallSignature) -> None:
        ports = tuple(port for port in signature.inputs if port.name in host)
        self._reader = FeedReader(CallSignature(ports, signature.outputs))
        self._host = dict(host)
        self._names: tuple[str, ...] | None = None
        self._warned: set[frozenset[str]] = set()

    @property
    def needed(self) -> tuple[Var, ...]:
        """The inputs, in the order of positional arguments, or of the graph."""
        names = self._host if self._names is None else self._names
        return tuple(self._host[name][0] for name in names)

    def order(self, inputs: Sequence[Var] | None) -> None:
        """Take positional arguments in this order; None: by name only.

        Raises: InputError for a variable that is not needed, is none, or comes twice; GraphError for one that is
        missing.
        """
        if inputs is None:
            self._names = None
            return
        given = [inputs] if isinstance(inputs, str | Var) else list(inputs)
        if given == [inputs] or not all(isinstance(var, Var) for var in given):
            raise InputError(f"{inputs!r} are no inputs of a function", fix="a list of variables, or None")
        names = [var.name for var in given]
        for var in given:
            if var.name not in self._host or self._host[var.name][0] != var:
                raise InputError(
                    f"{var!r} is no input that the function needs",
                    why=f"it needs {', '.join(self._host) or 'none'}",
                    fix="give the inputs that are needed, or inputs=None to give them by name",
                )
        if len(set(names)) != len(names):
            raise InputError(f"an input is given twice: {', '.join(names)}")
        missing = [name for name, (_, source) in self._host.items() if name not in names and source.is_empty]
        if missing:
            raise GraphError(f"the function also needs the inputs {', '.join(missing)}", fix="name all of them")
        self._names = tuple(names)

    def read(self, args: tuple[object, ...], named: dict[str, object]) -> dict[str, Feed]:
        """The feeds of a call. Raises: InputError for what does not fit."""
        if args:
            named = self._by_name(args, named)
        if len(named) != len(self._host) or named.keys() != self._host.keys():
            named = self._completed(named)
        return self._reader.read((), named)

    def _by_name(self, args: tuple[object, ...], named: Mapping[str, object]) -> dict[str, object]:
        if named:
            raise InputError("a function takes its inputs by position or by name, not both")
        if self._names is None:
            raise InputError("a function compiled without a list of inputs takes them by name", fix="f(x=...)")
        if len(args) != len(self._names):
            wanted = f"{len(self._names)} ({', '.join(self._names)})"
            raise InputError(f"a function of {wanted} inputs is called with {len(args)}")
        return dict(zip(self._names, args, strict=True))

    def _completed(self, named: Mapping[str, object]) -> dict[str, object]:
        """Without what is not needed, and with the values that inputs have."""
        extra = frozenset(name for name in named if name not in self._host)
        if extra and extra not in self._warned:
            self._warned.add(extra)
            warnings.warn(f"a function is given inputs that it does not need: {', '.join(sorted(extra))}", stacklevel=4)
        found = {name: value for name, value in named.items() if name in self._host}
        for name, (_, source) in self._host.items():
            if name not in found and not source.is_empty:
                found[name] = source.array
        return found
