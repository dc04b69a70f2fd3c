#!/usr/bin/env bash
# A regression gate for agents on any CI system.
#
#   ci.sh SUITE BASELINE GATE [OPTION OF ab run]…
#
# Runs the agent, compares the run with the run directory BASELINE and exits with the code of the gate: 0 it holds, 1 it fails,
# 2 it is undecided. Leaves candidate/ (the run directory) and report/ (comment.md, junit.xml, page/). Without BASELINE, the run
# is reported alone.
set -uo pipefail
suite=$1 baseline=$2 gate=$3
shift 3

out=$(mktemp -d)
ab run --suite "$suite" --out "$out" "$@" || exit
mv "$out"/* candidate

mkdir -p report
ab report summary --run candidate --format junit >report/junit.xml
if [ ! -e "$baseline/run.json" ]; then
  ab report summary --run candidate --format html --out report/page
  ab ci comment candidate --out report/comment.md
  exit
fi
ab report paired --run-a "$baseline" --run-b candidate --format html --out report/page
ab ci comment candidate --compare "$baseline" --gate "$gate" --out report/comment.md
