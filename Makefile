# Everything runs from a venv of the project's own; nothing but Python 3.11+ is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
JOBS ?= 2

.PHONY: setup demo test test-lab test-all lint bench slurm-lab-experiments clean
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

demo: setup
	@$(BIN)/batchcast demo -o demo-report

test: setup
	@$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not lab"

# One after the other: each has the machine's clock to keep.
test-lab: setup
	@$(BIN)/python -m pytest -m lab tests/slurm

test-all: setup
	@$(BIN)/python -m pytest -n $(JOBS)

lint: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: setup
	@$(BIN)/python -m benchmarks

# Needs root and tests/slurm/install.sh; about twenty minutes.
slurm-lab-experiments: setup
	@$(BIN)/python tests/slurm/experiments.py

clean:
	rm -rf $(VENV) build dist demo-report report
