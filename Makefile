# Every target works on a machine that has only Python (3.11 or newer), make and git: it makes its own virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
STORE ?= embedded
PYTEST_ARGS ?=

.PHONY: demo test test-fast test-all lint typecheck bench docs format clean

$(STAMP): pyproject.toml hbmodel/_version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## load flights and ask ten questions; STORE=hbase does it on a real HBase
	$(BIN)/python examples/flights.py --store $(STORE)

test: $(STAMP)  ## the default suite, real HBase included
	$(BIN)/python -m pytest -n 2 -m "not slow" $(PYTEST_ARGS)

test-fast: $(STAMP)  ## without a real HBase and without the model checker
	$(BIN)/python -m pytest -n 2 -m "not slow and not hbase and not model" $(PYTEST_ARGS)

test-all: $(STAMP)  ## everything, long runs too
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(STAMP)
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(STAMP)  ## hbmodel beside hand-written happybase, as ratios, on a real HBase
	$(BIN)/python -m tests.benchmarks

docs: $(STAMP)  ## run every example of the documentation
	$(BIN)/python -m pytest tests/test_docs.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
