# Three commands: `make demo`, `make test` and `make docs`. Each prepares what it needs, once.
# What takes longer: `make test-ci` runs the long tests, `make verify-smoke` every experiment at its smallest scale,
# `make fuzz` thousands of inputs that are not what they should be.
PYTHON ?= python3
BIN := .venv/bin
PIP := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --disable-pip-version-check --quiet

# One thread for each of two processes: with more they wait for each other, and small networks train ten times slower.
# What JAX compiled is kept: the next run takes a fifth less.
KEPT := JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/compiled JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0.1
PYTEST := MPLBACKEND=Agg OMP_NUM_THREADS=1 $(KEPT) $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

.PHONY: demo test test-ci fuzz verify-smoke docs equations tutorial lint bench faults clean

demo: .venv/torch.stamp
	$(BIN)/dynascope imitate --out results/demo
	$(BIN)/dynascope forecast results/demo/networks.nc --seen 0.5 --out results/demo
	@echo "A page about your own runs, while they train: pip install 'dynascope[live]'; dynascope live runs"

test: .venv/all.stamp
	$(PYTEST)

# the second pass checks types and shapes at run time, in the short tests of what computes
test-ci: .venv/all.stamp
	$(PYTEST) -m ci --ignore tests/experiments
	DYNASCOPE_CHECK_TYPES=1 $(PYTEST) tests/models tests/measure tests/statistics tests/data

# thousands of damaged files and senseless options, other ones each time; ends with a table of what became of them
fuzz: .venv/all.stamp
	MPLBACKEND=Agg OMP_NUM_THREADS=1 $(KEPT) $(BIN)/python -m pytest tests/faults/test_fuzz_readers.py \
		tests/faults/test_fuzz_commands.py -m 'ci or not ci' --hypothesis-profile=long

# with the tests that spoil these runs, so that each is done once
verify-smoke: .venv/all.stamp
	$(PYTEST) -m 'ci or not ci' tests/experiments

# Warnings (links that lead nowhere, names that are not found) are errors. The other variable mutes an advertisement.
docs: .venv/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Open site/index.html"

# The index from a number in a paper to the code: after a change to sources, claims, tests or pictures.
equations: .venv/all.stamp
	$(BIN)/python docs/write_equations.py

tutorial: .venv/docs.stamp .venv/all.stamp
	OMP_NUM_THREADS=1 $(BIN)/python docs/execute_tutorial.py

lint: .venv/all.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/all.stamp
	for each in $(filter-out benchmarks/faults.py,$(wildcard benchmarks/*.py)); do echo "== $$each"; $(BIN)/python $$each || exit 1; done

# Half an hour or more; stopped, it goes on where it was. docs/reliability.md says what it does.
faults: .venv/all.stamp
	$(BIN)/python benchmarks/faults.py

clean:
	rm -rf .venv results site

.venv/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dynascope needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/base.stamp: .venv/python.stamp pyproject.toml constraints.txt
	@echo "Installing dynascope into .venv ..."
	$(PIP) --editable .
	@touch $@

.venv/torch.stamp: .venv/base.stamp
	@echo "Installing PyTorch into .venv ..."
	$(PIP) --editable '.[torch]'
	@touch $@

.venv/all.stamp: .venv/base.stamp
	@echo "Installing the tools for tests, checks and benchmarks into .venv ..."
	$(PIP) --editable '.[all]'
	@touch $@

.venv/docs.stamp: .venv/base.stamp
	@echo "Installing what builds the site into .venv ..."
	$(PIP) --editable '.[docs]'
	@touch $@
