"""Look entries up by name."""

import difflib

from onnxgrad.engine.errors import CatalogError
from onnxgrad.models.catalog.data_sets import DATA
from onnxgrad.models.catalog.entry import Entry, Kind
from onnxgrad.models.catalog.trained_models import MODELS

_ENTRIES = {entry.name: entry for entry in (*MODELS, *DATA)}


def entries(kind: Kind | None = None) -> tuple[Entry, ...]:
    """All entries of the catalog, or those of one kind: models first, in the order of the table."""
    return tuple(entry for entry in _ENTRIES.values() if kind in (None, entry.kind))


def find_entry(name: str) -> Entry:
    """The entry of that name. Raises CatalogError with the names that come close."""
    if name in _ENTRIES:
        return _ENTRIES[name]
    close = difflib.get_close_matches(name, _ENTRIES, n=3, cutoff=0.5)
    hint = f"{', '.join(close)}; " if close else ""
    raise CatalogError(f"the catalog has no entry named {name!r}", fix=f"{hint}all names: onnxgrad models list")
