# Everything that a fresh machine needs beyond python3 (3.11+), venv, pip and make is installed here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
STAMP := $(VENV)/.installed

.PHONY: demo test lint types bench docs clean

demo: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/torchmcl demo

# Types are checked beside the tests, which wait for other processes now and then.
test: lint
	sh tests/install_browser.sh
	$(BIN)/mypy & types=$$!; OMP_NUM_THREADS=1 $(BIN)/pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder; tests=$$?; \
	wait $$types && exit $$tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/python docs/pictures.py
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --builder html docs docs/_build/html

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@
