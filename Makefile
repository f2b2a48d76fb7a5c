# Two commands from a bare clone: `make demo` and `make test`. Everything lives in .venv; nothing needs root.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*.cpp native/*.hpp)

.PHONY: demo test test-slow lint bench clean

demo: $(VENV)/.core
	$(BIN)/tastespace demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -q -n 2 -m "not slow"
	$(MAKE) --no-print-directory lint

test-slow: $(VENV)/.test
	$(BIN)/python -m pytest -q -m slow

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/recommending.py
	$(BIN)/python benchmarks/model_file.py
	$(BIN)/python benchmarks/sparse_ease.py accuracy
	$(BIN)/python benchmarks/sparse_ease.py large
	$(BIN)/python benchmarks/mixing.py
	$(BIN)/python benchmarks/tastes.py
	for what in torch implicit scaling memory large; do $(BIN)/python benchmarks/training.py $$what || exit 1; done

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The package is installed in editable mode: Python changes are live, and only a change of the native sources
# or of pyproject.toml builds again.
$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.core: $(VENV)/.created $(NATIVE)
	$(BIN)/pip install --disable-pip-version-check -q -e .
	touch $@

# torch first and by its exact version: a range would take the newest build, with gigabytes for graphics cards.
$(VENV)/.test: $(VENV)/.created $(NATIVE)
	$(BIN)/pip install --disable-pip-version-check -q torch==2.13.0
	$(BIN)/pip install --disable-pip-version-check -q -e ".[test]"
	touch $@ $(VENV)/.core

$(VENV)/.bench: $(VENV)/.test
	$(BIN)/pip install --disable-pip-version-check -q -e ".[test,bench]"
	touch $@
