# make demo | test | fuzz | bench | lint | clean. The first call of a target installs what it needs into .venv, later ones nothing.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
INSTALLED_TEST := .venv/.installed-test

.PHONY: demo test fuzz bench lint clean
.DELETE_ON_ERROR:

demo: $(INSTALLED)
	$(BIN)/gassip search --out runs/demo --overwrite

test: lint
	$(BIN)/mypy
	$(BIN)/python -m pytest

# twenty times the bad inputs of the ordinary tests
fuzz: $(INSTALLED_TEST)
	GASSIP_FUZZ=20 $(BIN)/python -m pytest tests/fuzz

lint: $(INSTALLED_TEST)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(INSTALLED_TEST)
	$(BIN)/python -m benchmarks

# torch comes first and exactly: a range, or another package asking for it, can resolve to a build of several gigabytes.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "gassip needs Python 3.11 or newer; set it with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "creating .venv (once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing torch (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@echo "installing gassip and its dependencies (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(INSTALLED_TEST): $(INSTALLED)
	@echo "installing the test tools (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@

clean:
	rm -rf .venv build dist runs .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
