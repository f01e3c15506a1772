# Needs make and Python >= 3.11, nothing else: every command makes .venv when it is missing or pyproject.toml changed.
# Everything stays inside this folder, but for the models and data sets in ~/.cache/onnxgrad (or $ONNXGRAD_CACHE).

PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
EXTRAS := text,vision,plot
TORCH := torch==2.13.0
CANDIDATES := python3 python3.13 python3.12 python3.11 python3.14 python

export MPLCONFIGDIR := $(CURDIR)/$(VENV)/matplotlib
export PIP_DISABLE_PIP_VERSION_CHECK := 1
ifndef PIP_CACHE_DIR
export PIP_NO_CACHE_DIR := 1
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow lint format bench clean

help:
	@echo "make demo       fine-tune a real model on real data and export it"
	@echo "make test       ruff, mypy, import contracts and the tests"
	@echo "make test-slow  the tests that compare with PyTorch or take long (installs $(TORCH))"
	@echo "make lint       everything of 'make test' but the tests"
	@echo "make format     let ruff lay out the code"
	@echo "make bench      every benchmark of benchmarks/; some compare with PyTorch (installs $(TORCH))"
	@echo "make clean      remove .venv and all caches inside this folder"

demo: $(VENV)/.installed
	$(BIN)/onnxgrad demo

test: lint
	$(PY) -m pytest

test-slow: $(VENV)/.torch
	$(PY) -m pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PY) -m mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The fuzzers take long and measure nothing; nets.py is what others share.
NO_BENCH := $(wildcard benchmarks/fuzz_*.py) benchmarks/nets.py

bench: $(VENV)/.torch
	@set -e; for file in $(sort $(filter-out $(NO_BENCH),$(wildcard benchmarks/*.py))); do echo "== $$file"; $(PY) $$file; done

clean:
	rm -rf $(VENV) build dist demo_output .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the environment: a stamp file per step, older than pyproject.toml = to be done again ---

$(VENV)/.installed: pyproject.toml
	@$(find_python) \
	if [ ! -x $(PY) ]; then echo "making $(VENV) with $$found"; rm -rf $(VENV); "$$found" -m venv $(VENV); fi
	$(PY) -m pip install --quiet --upgrade "pip>=25.1"
	$(PY) -m pip install --quiet --editable ".[$(EXTRAS)]"
	@touch $@

$(VENV)/.dev: $(VENV)/.installed
	$(PY) -m pip install --quiet --group dev
	@touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(PY) -m pip install --quiet "$(TORCH)"
	@touch $@

# Sets $found to the first Python that is new enough and can make an environment.
define find_python
set -e; found=""; \
for python in $(or $(PYTHON),$(CANDIDATES)); do \
    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
        found="$$python"; break; \
    fi; \
done; \
if [ -z "$$found" ]; then \
    echo "onnxgrad needs Python >= 3.11 with the venv module; tried: $(or $(PYTHON),$(CANDIDATES))." >&2; \
    echo "Install one (Debian: python3-venv), or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
    exit 1; \
fi;
endef
