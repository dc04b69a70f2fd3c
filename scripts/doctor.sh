#!/usr/bin/env bash
# Checks this machine: sandboxes and their limits, isolation, git, ripgrep, Docker, disk space. Prints a remedy for each problem.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/bootstrap --try-sandbox
exec .venv/bin/ab doctor "$@"
