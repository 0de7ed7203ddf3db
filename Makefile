# Every target depends on `make setup`, which creates .venv and installs ebbflow into it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-alone test-long unit lint bench soak docs site clean

help:  ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: java $(STAMP)  ## Create .venv with ebbflow, and check for Java 17+

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "ebbflow needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

java:
	@./scripts/ensure-java

demo: setup  ## Watch a pipeline resize itself: four minutes, ends with a report
	$(BIN)/ebbflow demo

# Spark tests mostly wait, so two run at once, each on its own cluster. Tests that measure times run alone. Only files
# with such tests are collected: importing all others takes ten seconds each time.
SPARK_TESTS = $(shell grep -rl --include='test_*.py' 'mark\.spark' tests)
ALONE_TESTS = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)
test: setup lint unit  ## All tests but those below, with real Spark clusters; under ten minutes on two cores
	$(BIN)/pytest -q -n 2 --dist worksteal -m "spark and not alone" $(SPARK_TESTS)

test-alone: setup  ## Compare the simulator with a real cluster; nothing may run beside it
	$(BIN)/pytest -q -m "spark and alone" $(ALONE_TESTS)

test-long: setup  ## Tests that take minutes each, on real Spark clusters
	$(BIN)/pytest -q -m long tests

unit: setup  ## Tests without Spark, on all cores
	$(BIN)/pytest -q -n auto --dist worksteal -m "not spark"

lint: setup  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup  ## Benchmarks, and the side-by-side run against dynamic allocation
	$(BIN)/python -m benchmarks

soak: setup  ## One hour of the loop: memory and CPU must stay flat (EBBFLOW_SOAK_SECONDS=600)
	$(BIN)/python -m benchmarks.soak

site: docs  ## Build the documentation into site/, with an API reference
	$(BIN)/zensical build --clean

docs: setup  ## Regenerate the reference pages
	$(BIN)/ebbflow metrics --markdown > docs/metrics.md
	$(BIN)/ebbflow config reference > docs/options.md

clean:  ## Remove everything that was generated
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
