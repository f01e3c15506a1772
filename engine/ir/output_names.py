"""Names that a file gives to the dimensions of its outputs, against what inference found.

A name at several places says that sizes are equal. Exporters write such names by hints, and some are wrong: sizes 32,
16 and 8 under one name. So a name is believed only where inference knows nothing better; other places get a symbol of
their own, which is spelled in the file as before.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext

_Place = tuple[ir.Value, int]


def settle_output_names(
    context: ShapeInferenceContext,
    declared: Iterable[tuple[ir.Value, ir.Shape]],
    symbols: set[str],
    of_inputs: set[str],
    spellings: dict[str, str],
) -> dict[str, str]:
    """Give outputs, which have their inferred shapes, the declared ones, without what contradicts inference.

    `symbols` are all in use, `of_inputs` those of the model's inputs; new ones are added to `symbols` and `spellings`.
    Returns generated symbol -> name, for dimensions that depend on data and were found to have a name.
    """
    declared = list(declared)
    found: dict[str, dict[_Place, str]] = defaultdict(dict)
    for value, shape in declared:
        for axis, name in enumerate(_names(shape)):
            if name is not None and value.shape is not None and len(value.shape) == len(shape):
                found[name][value, axis] = str(value.shape[axis])
    renamed: dict[str, str] = {}
    replaced: dict[_Place, str] = {}
    for name, places in found.items():
        first = name if name in of_inputs else next(iter(places.values()))
        sizes = list(dict.fromkeys(size for size in places.values() if size not in (name, first)))
        if first != name:
            _rename(context, renamed, first, name)
        elif len(sizes) == 1 and context.is_generated_symbol(sizes[0]):  # unknown: the file may well be right
            _rename(context, renamed, sizes[0], name)
            continue
        for size in sizes:
            symbol = _fresh(name, symbols)
            spellings[symbol] = spellings.get(name, name)
            _rename(context, renamed, size, symbol)
            replaced.update((place, symbol) for place, other in places.items() if other == size)
    for value, shape in declared:
        dims = list(shape.dims)
        own = {axis: symbol for (other, axis), symbol in replaced.items() if other is value}
        value.shape = ir.Shape([own.get(axis, dim) for axis, dim in enumerate(dims)]) if own else shape
    return renamed


def tell_apart(spellings: dict[str, str], values: Iterable[ir.Value]) -> None:
    """Where the file has one name for several sizes, let those that `values` have be spelled as the symbols they are.

    For new inputs: whoever feeds them must be told which axes are of one size. Changes `spellings`.
    """
    spelled = Counter(spellings.values())
    spelled.update(name for name in set(spelled) if name.isidentifier() and name not in spellings)
    shapes = [value.shape for value in values if value.shape is not None]
    for symbol in {name for shape in shapes for name in _names(shape) if name is not None}:
        if spellings.get(symbol) and spelled[spellings[symbol]] > 1:
            del spellings[symbol]


def _names(shape: ir.Shape) -> list[str | None]:
    return [None if isinstance(dim, int) else dim.value for dim in shape.dims]


def _rename(context: ShapeInferenceContext, renamed: dict[str, str], size: str, name: str) -> None:
    if context.is_generated_symbol(size):
        renamed.setdefault(size, name)


def _fresh(name: str, symbols: set[str]) -> str:
    stem, number = re.sub(r"\W+", "_", name), 1
    while f"{stem}_{number}" in symbols:
        number += 1
    symbols.add(f"{stem}_{number}")
    return f"{stem}_{number}"
