#!/usr/bin/env bash
# Quick end-to-end test: grade the reference and a no-op on one bundled task, then verify both runs. Takes a few seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/bootstrap --sandbox
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
task=src/agentbench/demo/toy-median

.venv/bin/ab run-task --task "$task" --agent reference --out "$out/reference" --fail-on 'pass_rate<1'
.venv/bin/ab run-task --task "$task" --agent noop --out "$out/noop" --fail-on 'pass_rate>0'
for run in "$out"/*/*/; do
  .venv/bin/ab verify "$run"
done
echo "smoke test passed"
