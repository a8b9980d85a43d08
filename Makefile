# Every command works on a bare machine with Python 3.11, make and a package registry.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
EXTRAS ?= litellm
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help

$(BIN)/modegate: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[demo]'
	@touch $@

$(BIN)/pytest: pyproject.toml $(BIN)/modegate
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@

.PHONY: install
install: $(BIN)/pytest ## Install modegate and its tools into .venv

.PHONY: run
run: $(BIN)/modegate ## Run the proxy with policies.yaml (ARGS="--upstream URL")
	$(BIN)/modegate serve --policies policies.yaml $(ARGS)

.PHONY: demo
demo: $(BIN)/modegate ## See an agent held in plan mode, offline, in under two minutes
	$(BIN)/modegate demo $(ARGS)

.PHONY: fmt
fmt: $(BIN)/pytest ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: check
check: lint coverage ## All that is checked beside the tests: lint, and how much of the core they reach

.PHONY: lint
lint: $(BIN)/pytest ## Format, lint, types, and the rules on imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# In percent of lines and branches: the floor under what the core's own tests reach.
COVERED := 98

.PHONY: coverage
coverage: $(BIN)/pytest ## Check which lines and branches of the core its own tests reach (some minutes)
	$(BIN)/pytest -q $(PARALLEL) --cov --cov-report=term:skip-covered --cov-fail-under=$(COVERED) \
		tests/modegate/core tests/modegate/server/upstream/test_litellm_request.py \
		tests/modegate/server/upstream/test_litellm_answer.py

ACP_CLIENTS := tests/acp-clients/node_modules/.package-lock.json

$(ACP_CLIENTS): tests/acp-clients/package-lock.json
	scripts/needs npm
	npm install --prefix tests/acp-clients --no-save --no-audit --no-fund --loglevel=error
	@touch $@

JOBS ?= $(shell nproc)
# A file's tests stay in one process, as its servers do, and files begin in the order that tests/conftest.py gives.
BY_FILE := --dist loadfile --no-loadscope-reorder
PARALLEL := -n $(JOBS) $(BY_FILE)

SDK_CLIENTS := tests/sdk-clients/node_modules/.package-lock.json

$(SDK_CLIENTS): tests/sdk-clients/package-lock.json tests/sdk-clients/requirements.txt $(BIN)/pytest
	scripts/needs npm
	$(BIN)/pip install -q -r tests/sdk-clients/requirements.txt
	npm install --prefix tests/sdk-clients --no-save --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: test
test: $(BIN)/pytest $(ACP_CLIENTS) $(SDK_CLIENTS) ## Run the tests (ARGS="-k name")
	scripts/needs redis-server nginx zsh dash
	$(BIN)/pytest $(PARALLEL) $(ARGS)

.PHONY: test-core
test-core: $(BIN)/pytest ## Run the tests of what decides, in a minute or two
	$(BIN)/pytest $(PARALLEL) tests/modegate/core $(ARGS)

.PHONY: agents
agents: $(BIN)/pytest ## Run real agents through modegate (ARGS="--only opencode")
	scripts/needs git npm
	$(BIN)/python scripts/agents/run.py $(ARGS)

LOCK := $(BIN)/uv pip compile -q --upgrade --python-version 3.12 --generate-hashes --no-annotate --no-header

.PHONY: lock
lock: $(BIN)/pytest ## Choose anew which versions the image is made of (EXTRAS= without litellm)
	$(BIN)/pip install -q uv
	$(LOCK) pyproject.toml $(addprefix --extra ,$(EXTRAS)) -o deploy/requirements.lock
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(LOCK) - -o deploy/build.lock

.PHONY: fuzz
fuzz: $(BIN)/pytest $(ACP_CLIENTS) $(SDK_CLIENTS) ## Look for calls that some SDK runs and nobody judged (ARGS="--seconds 600"), and for new examples of each property
	scripts/needs zsh dash
	$(BIN)/python scripts/differ.py $(ARGS)
	HYPOTHESIS_PROFILE=explore $(BIN)/pytest -q $(PARALLEL) --timeout 1800 -m hypothesis

.PHONY: fuzz-guided
fuzz-guided: $(BIN)/pytest ## Let a guided fuzzer loose on streamed answers (ARGS="--dialect messages --seconds 300")
	$(BIN)/pip install -q atheris
	$(BIN)/python scripts/fuzz.py $(ARGS)

.PHONY: bench
bench: $(BIN)/pytest ## Measure added latency and throughput as ratios to nginx (ARGS="--acp": ACP)
	scripts/needs nginx gcc
	$(BIN)/python bench/run.py $(ARGS)

.PHONY: soak
soak: $(BIN)/pytest ## Break everything for ten minutes and check what was left (ARGS="--seconds 180")
	scripts/needs nginx redis-server
	$(BIN)/python scripts/soak/run.py $(ARGS)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
