#!/usr/bin/env bash
# Quick end-to-end test: grade the reference and a no-op on one bundled task, then verify both runs. Takes a few seconds.
# AB=PROGRAM tests another installation than the one in .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/bootstrap --sandbox
ab=${AB:-.venv/bin/ab}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
task=src/agentbench/demo/toy-median

"$ab" run-task --task "$task" --agent reference --out "$out/reference" --fail-on 'pass_rate<1'
"$ab" run-task --task "$task" --agent noop --out "$out/noop" --fail-on 'pass_rate>0'
for run in "$out"/*/*/; do
  "$ab" verify "$run"
done
echo "smoke test passed"
