# Every target prepares what it needs first; `scripts/bootstrap` is quick when nothing is left to do.
# ARGS reaches the program behind a target: make test ARGS="tests/contract -k lock"

SHELL := /bin/bash
PYTHON_BIN := .venv/bin

.PHONY: help demo test check docs bench bench-peers soak honest conformance validate-suites wheel clean

help:
	@echo 'make demo         the whole thing on bundled tasks: validate, run four agents (one cheats), grade, compare'
	@echo 'make test         all tests'
	@echo 'make check        ruff, mypy, import contracts, dependency hygiene'
	@echo 'make docs         the documentation site in build/site'
	@echo 'make bench        measurements on both backends, printed with their conditions and kept as JSON (takes many minutes)'
	@echo 'make bench-peers  the same trivial work by ours and by other harnesses, side by side (installs them elsewhere)'
	@echo 'make soak         a run killed 200 times and resumed: nothing lost, repeated or left (about ten minutes)'
	@echo 'make honest       real fixes and honest variants of them must be accepted: ARGS="FOLDER… --out build/honest"'
	@echo 'make conformance  requirement -> tests -> result'
	@echo 'make validate-suites  every task of tasks/: baseline fails, reference passes, nothing flakes'
	@echo 'make wheel        dist/*.whl'

demo:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/ab demo $(ARGS)

test:
	@scripts/bootstrap --try-sandbox
	@$(PYTHON_BIN)/pytest -n 2 $(ARGS)

check:
	@scripts/bootstrap
	@scripts/check

docs:
	@scripts/bootstrap
	@$(PYTHON_BIN)/python scripts/generate_docs.py
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_BIN)/mkdocs build --clean $(ARGS)
	@echo 'open build/site/index.html'

# Each replaces its own part of the file and leaves the others. BENCH="calls sandbox" takes only these, RESULTS=FILE writes elsewhere.
BENCH ?= startup trace monitors gateway reports calls sandbox crowd setup attempt grading waiting
RESULTS ?= bench/results/ours.json

bench:
	@scripts/bootstrap --sandbox
	@for name in $(BENCH); do \
	  echo "== bench/$$name.py"; $(PYTHON_BIN)/python -m "bench.$$name" --json "$(RESULTS)" $(ARGS) || exit $$?; echo; done

bench-peers:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/python -m bench.peers $(ARGS)

soak:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/python -m tests.run.faults $(ARGS)

honest:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/python -m tests.campaigns.honest $(or $(ARGS),tasks)

conformance:
	@scripts/bootstrap --try-sandbox
	@$(PYTHON_BIN)/pytest -n 2 -q -r N --conformance build/conformance.json $(ARGS)

validate-suites:
	@scripts/bootstrap --sandbox
	@for suite in custom-dev custom-heldout; do \
	  $(PYTHON_BIN)/ab validate-tasks --suite $$suite --tasks-dir tasks --workers 2 $(ARGS) || exit $$?; done

wheel:
	@scripts/bootstrap
	@scripts/wheel

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
