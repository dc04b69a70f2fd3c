#!/usr/bin/env bash
# A regression gate for agents on any CI system.
#
#   ci.sh SUITE BASELINE GATE [OPTION OF ab run]…
#
# Runs the agent, compares the run with the run directory BASELINE and exits with the code of the gate: 0 it holds, 1 it fails,
# 2 it is undecided, also because there is no BASELINE. Leaves candidate/ (the run directory) and report/ (comment.md, junit.xml,
# page/). An existing candidate/ is refused: it would be taken for the new run.
set -uo pipefail
if [ $# -lt 3 ]; then
  echo "usage: ci.sh SUITE BASELINE GATE [OPTION OF ab run]…" >&2
  exit 2
fi
suite=$1 baseline=$2 gate=$3
shift 3
if [ -e candidate ]; then
  echo "candidate/ exists: remove it first" >&2
  exit 2
fi

out=$(mktemp -d)
ab run --suite "$suite" --out "$out" "$@" || exit
mv -T "$out"/* candidate || exit 2

mkdir -p report
ab report summary --run candidate --format junit >report/junit.xml
if [ ! -e "$baseline/run.json" ]; then
  ab report summary --run candidate --format html --out report/page
  ab ci comment candidate --out report/comment.md
  echo "the gate is undecided: there is no baseline in $baseline" >&2
  exit 2
fi
ab report paired --run-a "$baseline" --run-b candidate --format html --out report/page
ab ci comment candidate --compare "$baseline" --gate "$gate" --out report/comment.md
