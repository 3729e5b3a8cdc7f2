# Two commands set everything up themselves: `make run` and `make test`. No root is needed.

# The first interpreter that is new enough; when there is none, the set-up names what is missing.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' && echo $$p && exit; \
	done 2>/dev/null; echo python3)
ACE_VENV ?= $(CURDIR)/.venv
export ACE_VENV
BIN := $(ACE_VENV)/bin
PY := $(BIN)/python
# Warnings of a build do not belong between the lines of the launcher.
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help run test test-vllm test-native native check fmt bench chaos fakes skill docs setup setup-test

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: setup ## Set up, then run console, gateway and all that they need (Ctrl-C stops everything)
	@exec $(PY) -m console.launcher

test: setup-test ## Set up, then run every test that needs no GPU
	$(PY) -m pytest -n 2 -m "not integration and not browser and not vllm and not gpu and not chaos"
	$(PY) -m pytest -n 0 -m "(integration or browser) and not vllm and not gpu and not chaos"

check: setup-test ## Format, lint, types, import contracts, templates, docs drift, migrations
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	find templates console -name '*.html' -print0 | xargs -0 -r $(BIN)/djade --check --target-version 5.2
	$(BIN)/djlint templates console --lint --quiet
	git ls-files '*.md' | xargs -r grep -l '\[\[\[cog' | xargs -r $(BIN)/cog -I . --check -c
	$(BIN)/deptry .
	git ls-files -- ':!static/vendor' ':!tests/browser/vendor' ':!*.json' ':!deploy/locks' | xargs $(BIN)/codespell
	$(PY) deploy/drift.py

fmt: setup-test ## Format Python and templates, and write generated parts of the docs anew
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	find templates console -name '*.html' -print0 | xargs -0 -r $(BIN)/djade --target-version 5.2

docs: setup-test ## Write the generated parts of the docs and the OpenAPI document anew
	git ls-files '*.md' | xargs -r grep -l '\[\[\[cog' | xargs -r $(BIN)/cog -I . -r -c
	$(PY) deploy/drift.py --write

native: setup-test ## Compile the gateway's hot path (needs a C compiler); taken from the next start on
	$(PY) deploy/native.py

test-native: setup-test ## Compile the hot path and run the gateway's tests against it
	@$(PY) deploy/native.py --probe || exit 0; \
	$(PY) deploy/native.py && \
	$(PY) -m pytest -n 2 -p tests.compiled tests/gateway tests/contract && \
	$(PY) -m pytest -n 0 tests/integration/test_hard_budget.py tests/integration/test_killed_worker.py

bench: setup-test ## Measure, print ratios against peers, write benchmarks/results/latest.json
	-$(PY) deploy/native.py
	$(PY) -m benchmarks

chaos: setup-test ## Minutes of random faults; ACE_CHAOS_S=seconds, ACE_CHAOS_SEED=seed of a failed run
	$(PY) -m pytest -n 0 -s -m chaos tests/integration/test_chaos.py

fakes: setup-test ## Run the fake engines alone (vLLM, SGLang, TensorRT-LLM)
	@exec $(PY) -m tests.fakes

test-vllm: setup-test ## Drive the gateway against a real vLLM on the CPU; skips itself where it cannot be had
	@deploy/vllm_lane.sh

skill: setup-test ## Make the folder of a new skill: make skill slug=my_skill
	@$(PY) -m policies.scaffold $(slug)

setup:
	@$(PYTHON) deploy/bootstrap.py run

setup-test:
	@$(PYTHON) deploy/bootstrap.py test
