"""Options of a computing graph: `graph.options.graph_opt_level = 1`, `graph.set_option("log_level", 0)`."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field, fields

from onnxgrad.engine.errors import OptionError

ENVIRONMENT = "ONNXGRAD_GRAPH_OPTIONS"
"""Options that graphs start with: `name=number;name=number`."""

_ALIASES = {"log_static_mem_alloc": "log_level", "enable_async_exec": "async_exec_level"}
_GROUPS = ("seq_opt.", "graph_opt.")


@dataclass
class SublinearMemory:
    """How the search for values to compute twice goes on: how many splits it tries, and what it stops at."""

    thresh_nr_try: int = 10
    lb_memory_mb: int = 0


@dataclass
class GraphOptions:
    """How a graph is written and compiled. Functions that are compiled already keep what they were compiled with.

    graph_opt_level: 0 nothing is optimized; 1 equal nodes are one while the graph is written, and onnxruntime's basic
    optimizer runs; 2 also the passes of `optimize_for_inference` on what stands before the gradients, and all of
    onnxruntime's optimizer; 3 the passes once more on the whole. A negative level does the same, and the first run is
    compared with that of level 0.
    """

    graph_opt_level: int = 2
    enable_mem_plan_opt: bool = True
    enable_mem_reuse_alloc: bool = True
    enable_seq_comp_node_opt: bool = True
    force_dynamic_alloc: bool = False
    force_output_dynamic_alloc: bool = False
    force_output_use_user_specified_memory: bool = False
    var_sanity_check_first_run: bool = True
    allocate_static_mem_after_graph_compile: bool = False
    fake_next_exec: bool = False
    enable_sublinear_memory_opt: bool = False
    comp_node_seq_record_level: int = 0
    async_exec_level: int = 1
    log_level: int = 1
    sublinear_mem_config: SublinearMemory = field(default_factory=SublinearMemory)
