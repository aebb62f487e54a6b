# Two commands do all the set-up on a fresh machine: `make audit` and `make test`.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/
STAMP := $(VENV)/.installed

# Compiled once and not by each of the many processes that tests start, also where the environment asks otherwise.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: audit test test-all test-long lint bench studies docs dist clean
.DEFAULT_GOAL := audit

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN)pip install --quiet --disable-pip-version-check --constraint constraints.txt "torch<2.14"
	$(RUN)pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

audit: $(STAMP)  ## Train a small network on the bundled German credit data and audit it.
	$(RUN)isonomy audit --gamma 0.1

test: $(STAMP)  ## The fast tests.
	$(RUN)python -m pytest -n 2 --dist loadfile -m "not slow and not long"

test-all: $(STAMP)  ## The slow tests too, and all examples of the others.
	$(RUN)python -m pytest -n 2 --dist loadfile -m "not long" --all-examples

test-long: $(STAMP)  ## Campaigns of hours.
	$(RUN)python -m pytest -n 2 --dist loadfile -m "long" --all-examples

lint: $(STAMP)  ## Style and types.
	$(RUN)ruff check .
	$(RUN)ruff format --check .
	$(RUN)mypy

bench: $(STAMP)  ## Speed and tightness, as ratios.
	$(RUN)python benchmarks/bounds.py

STUDIES ?= all --quick
studies: $(STAMP)  ## The studies, in their quick form; one of them whole: make studies STUDIES="uci --seeds 3".
	$(RUN)python -m studies $(STUDIES)

docs: $(STAMP)  ## The documentation, as pages: docs/_build/html/index.html.
	$(RUN)python -m sphinx -W --keep-going -b html docs docs/_build/html

dist:  ## Wheels and source of a release, checked: dist/. Needs nothing of .venv.
	rm -rf dist
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt hatchling twine
	$(VENV)-dist/bin/hatchling build --directory dist
	cd packaging/isonomy-verify && ../../$(VENV)-dist/bin/hatchling build --target wheel --directory ../../dist
	$(VENV)-dist/bin/twine check --strict dist/*

clean:
	rm -rf dist docs/_build $(VENV) $(VENV)-dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
