# Two commands: `make demo` and `make test`. Each prepares what it needs, once.
PYTHON ?= python3
BIN := .venv/bin
PIP := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --disable-pip-version-check --quiet

.PHONY: demo test lint bench clean

demo: .venv/base.stamp
	$(BIN)/dynascope reproduce spring_block/phase_diagram --scale laptop

test: .venv/all.stamp
	MPLBACKEND=Agg $(BIN)/python -m pytest

lint: .venv/all.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/all.stamp
	$(BIN)/python benchmarks/spring_block.py
	$(BIN)/python benchmarks/measure.py
	$(BIN)/python benchmarks/watch.py

clean:
	rm -rf .venv results

.venv/python.stamp:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dynascope needs Python 3.11 or newer; $(PYTHON) is older. Try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/base.stamp: .venv/python.stamp pyproject.toml constraints.txt
	@echo "Installing dynascope into .venv ..."
	$(PIP) --editable .
	@touch $@

.venv/all.stamp: .venv/base.stamp
	@echo "Installing the tools for tests, checks and benchmarks into .venv ..."
	$(PIP) --editable '.[all]'
	@touch $@
