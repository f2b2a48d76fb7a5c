# From a bare clone: `make demo`, `make check` and `make test`. Everything is in .venv; nothing needs root.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
NATIVE := CMakeLists.txt pyproject.toml $(wildcard native/*/*.cpp native/*/*.hpp)

# Tests of the core, with its own dependencies, pytest and hypothesis alone. Single tests that need an optional package
# skip there; all tests of approximate search need faiss.
CHECK := tests/test_imports.py tests/data tests/training tests/ranking tests/evaluation tests/recommend/rules
NOT_CORE := $(addprefix --ignore=tests/,ranking/test_ann_index.py ranking/test_ann_lists.py)

.PHONY: demo check test test-slow services lint bench docs page peers leaderboards sdist wheels lock audit sbom sanitize fuzz torture soak clean

demo: $(VENV)/.core
	$(BIN)/tastespace demo

check: $(VENV)/.check
	$(BIN)/python -m pytest -q -m "not slow" $(CHECK) $(NOT_CORE)

test: $(VENV)/.test
	TASTESPACE_REQUIRE_EXTRAS=1 $(BIN)/python -m pytest -q -n 2 -m "not slow"
	$(MAKE) --no-print-directory lint

test-slow: $(VENV)/.test
	TASTESPACE_REQUIRE_EXTRAS=1 $(BIN)/python -m pytest -q -m slow

# PostgreSQL and Chromium, which some tests need; without them these tests skip. Needs root.
services:
	.ci/install-services

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.test
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/recommending.py
	$(BIN)/python benchmarks/model_file.py
	$(BIN)/python benchmarks/sparse_ease.py accuracy
	$(BIN)/python benchmarks/sparse_ease.py large
	$(BIN)/python benchmarks/mixing.py
	$(BIN)/python benchmarks/tastes.py
	$(BIN)/python benchmarks/serving.py
	for what in torch implicit scaling memory large; do $(BIN)/python benchmarks/training.py $$what || exit 1; done

# docs/benchmarks.md: other libraries, each in an environment of its own below build/peers. Finished cells are kept.
peers: $(VENV)/.test
	$(BIN)/python benchmarks/peers.py

# docs/leaderboards.md: published splits beside published figures. Finished cells are kept.
leaderboards: $(VENV)/.test
	$(BIN)/python benchmarks/leaderboards.py

# What .github/workflows/wheels.yml runs. `wheels` builds from the sdist, for all versions of Python and for this system;
# on Linux it needs Docker or Podman.
sdist: $(VENV)/.build
	$(BIN)/python -m build --sdist --outdir dist

wheels: $(VENV)/.build
	$(BIN)/cibuildwheel --output-dir wheelhouse dist/tastespace-*.tar.gz

# What the container installs, with hashes: deploy/requirements.lock, and deploy/build.lock to build the wheel.
LOCK := pip compile -q --universal --upgrade --python-version 3.12 --generate-hashes --no-emit-index-url --no-annotate \
	--custom-compile-command "make lock"
lock: $(VENV)/.supply
	$(BIN)/uv $(LOCK) --extra serve --extra postgresql -o deploy/requirements.lock pyproject.toml
	printf '%s\n' scikit-build-core nanobind cmake ninja | $(BIN)/uv $(LOCK) -o deploy/build.lock -

# Advisories on what the container installs; needs pypi.org.
audit: $(VENV)/.supply
	$(BIN)/pip-audit --require-hashes --disable-pip -r deploy/requirements.lock

# What the container contains, in CycloneDX: dist/sbom.json.
sbom: $(VENV)/.supply
	mkdir -p dist
	$(BIN)/cyclonedx-py requirements deploy/requirements.lock --pyproject pyproject.toml --of JSON -o dist/sbom.json

# Outside of continuous integration, each within 20 minutes on two idle cores (docs/reliability.md).
sanitize: $(VENV)/.test
	$(BIN)/python native/tests/sanitize.py

fuzz: $(VENV)/.test
	$(BIN)/python -m tests.fuzz --minutes 20 --seed $(or $(SEED),0)

torture: $(VENV)/.test
	$(BIN)/python -m tests.torture --kills 200 --minutes 20 --seed $(or $(SEED),0)

# Half an hour of mixed requests, reloads and an outage; needs PostgreSQL (`make services`).
soak: $(VENV)/.test
	$(BIN)/python -m tests.torture.soak --minutes 30 --seed $(or $(SEED),0)

# The site, in build/site: open build/site/index.html. A warning, such as a dead link, fails the build.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/site

# The page is committed as it is built; this builds it again after a change below page/.
page:
	npm ci --prefix page --no-audit --no-fund
	npm run build --prefix page

clean:
	rm -rf $(VENV) build dist wheelhouse docs/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The package is installed in editable mode: Python changes are live, and only a change of the native sources
# or of pyproject.toml builds again. The core alone has the kernels for this processor, in a third of the time;
# .test builds them for all processors.
$(VENV)/.created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.build: $(VENV)/.created
	$(BIN)/pip install --disable-pip-version-check -q "build>=1.2" cibuildwheel==4.3.5
	touch $@

$(VENV)/.supply: $(VENV)/.created
	$(BIN)/pip install --disable-pip-version-check -q uv==0.13.8 pip-audit==2.10.1 cyclonedx-bom==7.5.0
	touch $@

$(VENV)/.core: $(VENV)/.created $(NATIVE)
	SKBUILD_CMAKE_DEFINE=TASTESPACE_VARIANTS=auto $(BIN)/pip install --disable-pip-version-check -q -e .
	touch $@

# The packages of an extra alone, so that the kernels are not built again.
EXTRA = $$($(BIN)/python -c 'from tastespace._util.extras import EXTRAS; print(*EXTRAS["$(1)"].packages)')

$(VENV)/.check: $(VENV)/.core
	$(BIN)/pip install --disable-pip-version-check -q $(call EXTRA,check)
	touch $@

# torch first and by its exact version: a range would take the newest build, with gigabytes for graphics cards.
$(VENV)/.test: $(VENV)/.created $(NATIVE)
	$(BIN)/pip install --disable-pip-version-check -q torch==2.13.0
	$(BIN)/pip install --disable-pip-version-check -q -e ".[test]"
	$(BIN)/pip install --disable-pip-version-check -q --no-deps obp==0.4.1  # for the logs inside it; it is not imported
	touch $@ $(VENV)/.core $(VENV)/.check $(VENV)/.docs

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/pip install --disable-pip-version-check -q $(call EXTRA,docs)
	touch $@
