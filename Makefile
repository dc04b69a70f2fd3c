# Every target runs `scripts/bootstrap` first, which is quick when everything is installed.
# ARGS is passed to the program behind a target: make test ARGS="tests/contract -k lock"

SHELL := /bin/bash
PYTHON_BIN := .venv/bin
# Without bytecode, every process would compile the harness and its libraries again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check docs bench bench-peers soak soak-ray honest redteam sequential conformance validate-suites wheel test-pythons release-check clean

help:
	@echo 'make demo         validate the bundled tasks, run three agents (one cheats), grade and compare them'
	@echo 'make test         run all tests'
	@echo 'make check        run ruff, mypy, import-linter and deptry'
	@echo 'make docs         build the documentation site in build/site'
	@echo 'make bench        run the benchmarks on both backends and write JSON results (takes many minutes)'
	@echo 'make bench-peers  compare with other harnesses on the same work (installs them outside of the repository)'
	@echo 'make soak         kill and resume a run 200 times and check that nothing is lost, repeated or leaked (about ten minutes)'
	@echo 'make soak-ray     kill and add nodes of a Ray cluster during 300 attempts and check that nothing is lost, repeated or left behind'
	@echo 'make honest       check that fixes, variants of them and independent solutions are accepted (an hour): ARGS="FOLDER…"'
	@echo 'make redteam      grade every known cheat on both backends and show what stops it; ARGS="--ablate": without each layer'
	@echo 'make sequential   simulate the error rates and the power of sequential comparisons (about five minutes)'
	@echo 'make conformance  show each requirement as whole, partly or missing, with its tests'
	@echo 'make validate-suites  validate every task in tasks/: baseline fails, reference passes, results are stable'
	@echo 'make wheel        build the wheel and the sdist in dist/, reproducibly'
	@echo 'make test-pythons test the wheel with Python 3.11, 3.12 and 3.13: unit tests and gradings in the sandbox'
	@echo 'make release-check  check everything that a release needs, one line per step; ARGS="build metadata": only these steps'

# Many tests wait for processes, so four workers keep two cores busy. A worker without tests takes some of another's.
WORKERS ?= 4
# Tests write and sync many small files, so their folders are in memory if 4 GB are free there.
TEST_TMPDIR ?= $(shell [ "$$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null && echo /dev/shm || echo "$${TMPDIR:-/tmp}")

demo:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/ab demo $(ARGS)

test:
	@scripts/bootstrap --try-sandbox
	@TMPDIR=$(TEST_TMPDIR) $(PYTHON_BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

check:
	@scripts/bootstrap
	@scripts/check

docs:
	@scripts/bootstrap
	@$(PYTHON_BIN)/python scripts/generate_docs.py
	@NO_MKDOCS_2_WARNING=1 $(PYTHON_BIN)/mkdocs build --clean $(ARGS)
	@echo 'open build/site/index.html'

# `real` needs a folder of tasks: make bench BENCH=real ARGS="FOLDER --swebench 5".
# Each bench replaces its own part of the results file. BENCH="calls sandbox" runs only these; RESULTS=FILE writes to another file.
BENCH ?= startup trace monitors gateway reports view calls observation sandbox exec_log crowd setup attempt grading waiting
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
	@$(PYTHON_BIN)/python -m tests.execution.faults $(ARGS)

soak-ray:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/python -m tests.execution.cluster.soak $(ARGS)

honest:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/python -m tests.campaigns.honest $(ARGS)

redteam:
	@scripts/bootstrap --sandbox
	@$(PYTHON_BIN)/python -m tests.campaigns.redteam $(ARGS)

sequential:
	@scripts/bootstrap
	@$(PYTHON_BIN)/python -m tests.campaigns.sequential $(ARGS)

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

test-pythons: wheel
	@scripts/test-pythons $(ARGS)

release-check:
	@scripts/release-check $(ARGS)

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
