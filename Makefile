# Every target makes .venv and installs what it needs; Python 3.11 or newer is all a machine must have.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export OMP_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1
# Hundreds of tests start a Python of their own, which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install quickstart test test-slow test-landing test-nightly test-all lint types docs dist bench clean

install: $(VENV)/run.stamp

quickstart: $(VENV)/run.stamp
	$(BIN)/latecomer run quickstart

# A file's tests stay in one process: many of them share a run that takes seconds. tests/conftest.py orders the files.
test test-slow test-landing test-nightly test-all: SPREAD := -n logical --maxprocesses 8 --dist loadfile --no-loadscope-reorder

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest $(SPREAD) -m "not (slow or nightly or theory or browser or cluster or gpu)"

# What takes seconds: whole runs and pages, simulations, the browser.
test-slow: $(VENV)/test.stamp
	$(BIN)/python -m pytest $(SPREAD) -m "(slow or theory or browser or cluster) and not (nightly or gpu)"

# Both.
test-landing: $(VENV)/test.stamp
	$(BIN)/python -m pytest $(SPREAD) -m "not (nightly or gpu)"

# The rest of test-all: the longest.
test-nightly: $(VENV)/test.stamp
	$(BIN)/python -m pytest $(SPREAD) -m "nightly and not gpu"

test-all: $(VENV)/test.stamp
	$(BIN)/python -m pytest $(SPREAD) -m "not gpu"

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test.stamp build/links
	$(BIN)/mypy

docs: $(VENV)/docs.stamp build/links
	$(BIN)/mkdocs build --strict

dist: $(BIN)/python
	$(BIN)/python -m pip install --quiet build
	$(BIN)/python -m build --outdir dist

# All contestants keep freed memory as the workers of a study do.
bench: export MALLOC_MMAP_THRESHOLD_ ?= 134217728
bench: export MALLOC_TRIM_THRESHOLD_ ?= 536870912
bench: export MALLOC_TOP_PAD_ ?= 67108864
bench: $(VENV)/test.stamp
	mkdir -p build
	$(BIN)/python -m pytest tests/benchmarks -o python_files='bench_*.py' --benchmark-only --benchmark-json=build/benchmarks.json

build/links: tests/check.py
	$(PYTHON) tests/check.py links

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# torch first, from a build without CUDA where the index has one, and never replaced afterwards.
$(VENV)/torch.stamp: | $(BIN)/python
	$(BIN)/python -m pip install --quiet "torch==2.13.0"
	touch $@

$(VENV)/run.stamp: $(VENV)/torch.stamp pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[train]"
	touch $@

# These two hold what a run needs, too.
$(VENV)/test.stamp: $(VENV)/torch.stamp pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $(VENV)/run.stamp $@

$(VENV)/docs.stamp: $(VENV)/torch.stamp pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[docs]"
	touch $(VENV)/run.stamp $@

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
