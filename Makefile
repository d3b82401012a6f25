# Every target works on a machine that has only Python (3.11 or newer), make and git: it makes its own virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RELEASE := $(VENV)-release
STORE ?= embedded
PYTEST_ARGS ?=
TESTED ?=
FILES ?=
TIMES ?= 5
STRESS ?=
SEED ?=
MINUTES ?= 10
SWEEPS ?=
VERSIONS ?=
WHEELS ?= dist

DEFAULT_SUITE := -n 5 --dist loadfile --no-loadscope-reorder -m "not slow and not repeated and not checked"

# The tests start many processes, and each would compile the library and the tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo wheel release test test-fast test-all test-pythons test-stress test-phoenix test-versions check-samples check-protocol lint typecheck bench soak docs format update clean

# pip itself first: from 25.3 on it can hold the build backend to the same versions.
$(STAMP): pyproject.toml constraints.txt hbmodel/_version.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## load flights and ask ten questions; STORE=hbase does it on a real HBase
	$(BIN)/python examples/flights.py --store $(STORE)

wheel: $(STAMP)  ## what pip installs elsewhere, in WHEELS
	$(BIN)/python -m pip wheel --quiet --no-deps --build-constraint constraints.txt --wheel-dir $(WHEELS) .

release:  ## the sdist and the wheel, checked, in WHEELS, and what to do next
	$(PYTHON) -m venv --clear $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --upgrade --constraint constraints.txt pip
	$(RELEASE)/bin/python -m pip install --quiet --constraint constraints.txt --group release
	.ci/release $(RELEASE)/bin/python $(WHEELS)

test: $(STAMP)  ## the default suite, real HBase included
	$(BIN)/python -m pytest $(DEFAULT_SUITE) $(PYTEST_ARGS)

test-fast: $(STAMP)  ## without a real HBase, the model checker and lengthy tests, with a fifth of the examples of each property
	HBMODEL_TEST_EXAMPLES=0.2 $(BIN)/python -m pytest -n 4 --ignore=tests/checker --dist loadfile --no-loadscope-reorder -m "not slow and not lengthy and not hbase and not model and not repeated" $(PYTEST_ARGS)

test-all: $(STAMP)  ## everything, long runs too, with twice the examples of each property; then the oldest version of HBase
	HBMODEL_TEST_EXAMPLES=2 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)
	$(BIN)/python -m tests.versions --oldest

test-pythons:  ## the fast suite on every Python from 3.11 on that this machine has, but those in TESTED
	.ci/test-pythons $(TESTED)

# STRESS is how many busy processes there are in all, one for each core by default. SEED, which each run prints, repeats its order.
test-stress: $(STAMP)  ## the default suite, or FILES, TIMES times beside STRESS busy processes, the files in a random order of SEED
	$(BIN)/python -m tests.stress --times $(TIMES) $(if $(STRESS),--busy $(STRESS)) $(if $(SEED),--seed $(SEED)) -- \
		$(DEFAULT_SUITE) $(FILES) $(PYTEST_ARGS)

test-machines: $(STAMP)  ## the fast suite, or FILES, as on machines with a slow disk, with a clock ahead of the store's, and without garbage collection
	for machine in slow-disk clocks-apart no-collection; do \
		$(MAKE) test-fast PYTEST_ARGS="-p tests.stress.machines --machine $$machine $(FILES) $(PYTEST_ARGS)" || failed=1; \
	done; exit $${failed:-0}

test-versions: $(STAMP)  ## the tests of a real HBase on each version of HBase, or on VERSIONS; renews the tables of what hbmodel works with
	$(BIN)/python -m tests.versions $(foreach version,$(VERSIONS),--version $(version))

check-samples: $(STAMP)  ## samples and mutants of the model checker, on two processes; where they pass, `make test` leaves them out
	$(BIN)/python -m tests.checker.checked_code

check-protocol: $(STAMP)  ## every sweep and every mutant of the model checker to the end, on two processes; goes on where an earlier run was stopped; SWEEPS=text runs those alone
	$(BIN)/python -m tests.checker "$(SWEEPS)"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(STAMP)
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

test-phoenix: $(STAMP)  ## tables of Apache Phoenix: rows that its own client makes, on every store, and its SQL on an HBase with its classes
	$(BIN)/python -m pytest -m "" tests/encoding/test_phoenix.py tests/session/test_phoenix_tables.py tests/phoenix $(PYTEST_ARGS)

bench: $(STAMP)  ## hbmodel beside hand-written happybase, as ratios, on a real HBase
	$(BIN)/python -m tests.benchmarks

soak: $(STAMP)  ## writers, readers, repairers and a builder on a real HBase, killed at random for MINUTES
	$(BIN)/python -m tests.soak $(MINUTES)

docs: $(STAMP)  ## run every example of the documentation and build the site, in build/site
	$(BIN)/python -m pytest tests/project/test_docs.py tests/project/test_drawings.py tests/project/test_site.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

update:  ## the newest versions of all that development installs, for every Python and platform; runs nothing else
	$(PYTHON) -m venv --clear $(VENV)-update
	$(VENV)-update/bin/python -m pip install --quiet uv
	printf '%s\n' pip hatchling hatch-fancy-pypi-readme editables | $(VENV)-update/bin/uv pip compile --quiet --system-certs --universal --upgrade \
		--python-version 3.11 --extra dev --group release --no-annotate --custom-compile-command 'make update' --output-file constraints.txt pyproject.toml -
	rm -rf $(VENV)-update

clean:
	rm -rf $(VENV) $(RELEASE) .venv3.* .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
