# `make run` shows it at work; `make lint test` is what CI runs.

PYTHON ?= python3
PORT ?= 8321
PYTEST_ARGS ?=
PROCESSES ?= auto
BENCH_ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help run test test-long lint format bench torture docs lock clean

help:
	@echo "make run     the service on examples/site, at http://127.0.0.1:$(PORT)/"
	@echo "make test    the tests, side by side (PROCESSES=n, PYTEST_ARGS=… goes to pytest)"
	@echo "make test-long  the same and the long ones, with ten times the examples of each property"
	@echo "make lint    ruff, mypy, import-linter"
	@echo "make format  let ruff lay out the code"
	@echo "make bench   the benchmarks, and docs/figures.json from them (BENCH_ARGS=… goes to them instead of --write)"
	@echo "make torture  faults on real processes (SECONDS=n SEED=n FAULTS=…), see docs/reliability.md"
	@echo "make docs    the pages of docs/ as a site, in build/docs"
	@echo "make lock    both requirements files anew from pyproject.toml, with hashes"
	@echo "make clean   removes what these made, .venv included"

# What running needs. pip checks the hash of each file that it installs; sitemapd itself is a folder and has none.
.venv/.run-stamp: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "sitemapd needs Python 3.11 or newer, and '$(PYTHON)' is not: name one that is, as in 'make PYTHON=python3.12 …'." >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make a virtual environment: on Debian and Ubuntu install the package python3-venv, then run make again." >&2; \
		exit 1; }
	@echo "Installing into .venv (about a minute the first time) …"
	@$(PYTHON) -m venv .venv
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.stamp: .venv/.run-stamp requirements-dev.lock
	@$(PIP) install --require-hashes --requirement requirements-dev.lock
	@touch $@

run: .venv/.run-stamp
	SITEMAPD_SITES__MAIN__WATCH__PAGES__IMAGES=og $(BIN)/sitemapd run examples/site --base-url http://127.0.0.1:$(PORT)/ --output .run/public --data-dir .run/data --port $(PORT)

# A process takes tests from the end of another's list when its own is done.
test: .venv/.stamp
	$(BIN)/python -m pytest --numprocesses=$(PROCESSES) --dist=worksteal $(PYTEST_ARGS)

test-long: .venv/.stamp
	$(BIN)/python -m pytest --numprocesses=$(PROCESSES) --dist=worksteal -m "" --hypothesis-profile=long $(PYTEST_ARGS)

lint: .venv/.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy sitemap_store producers worker sitemapd clients/python tests benchmarks
	$(BIN)/lint-imports

format: .venv/.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.stamp
	$(BIN)/python -m benchmarks $(or $(BENCH_ARGS),--write)

torture: .venv/.stamp
	$(BIN)/python -m tests.torture --seconds $(or $(SECONDS),120) $(if $(SEED),--seed $(SEED)) --faults '$(or $(FAULTS),all)' $(TORTURE_ARGS)

docs: .venv/.stamp
	$(BIN)/mkdocs build --strict --quiet

# For each Python from 3.11 on and each platform: hashes of all files of a version, markers where versions differ.
COMPILE := .venv-lock/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command 'make lock' --all-extras

lock:
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip --quiet --disable-pip-version-check install uv
	$(COMPILE) --group dev pyproject.toml --output-file requirements-dev.lock >/dev/null
	$(COMPILE) --group editable --constraint requirements-dev.lock pyproject.toml --output-file requirements.lock >/dev/null
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock .run build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find sitemap_store producers worker sitemapd clients tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
