"""Shell completion, asked for by bash itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentbench.cli.main import root

ASK = """
eval "$(ab completion bash)"
COMP_WORDS=({words}); COMP_CWORD={index}; COMPREPLY=()
_ab_completion ab
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def complete(folder: Path, *words: str) -> list[str]:
    """Return what bash offers for the last word."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin" / "ab"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentbench.cli "$@"\n')
    program.chmod(0o755)
    script = ASK.format(words=" ".join(f"'{word}'" for word in ("ab", *words)), index=len(words))
    path = f"{program.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, env={"PATH": path}, capture_output=True, text=True, timeout=600, check=True
    )
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_runs(tmp_path: Path) -> None:
    for name in ("2026-03-01T10-00-00+0000__demo__noop__none", "2026-03-02T10-00-00+0000__demo__noop__none"):
        folder = tmp_path / "artifacts" / "runs" / name
        folder.mkdir(parents=True)
        (folder / "run.json").write_text(json.dumps({"run_id": name}))
    assert complete(tmp_path, "re") == ["replay", "report", "rescore", "retain", "retry"]
    assert complete(tmp_path, "run", "--failed") == ["--failed-of"]
    assert complete(tmp_path, "show", "2026-03-02") == ["2026-03-02T10-00-00+0000__demo__noop__none"]
    assert complete(tmp_path, "show", "la") == ["latest"]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_and_options(tmp_path: Path) -> None:
    program = tmp_path / "ab"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentbench.cli "$@"\n')
    program.chmod(0o755)
    script = "ab completion fish | source; complete -C 'ab re'; complete -C 'ab run --failed'"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(["fish", "-c", script], env=env, capture_output=True, text=True, timeout=600, check=True)
    words = [line.split("\t")[0] for line in done.stdout.splitlines() if line]
    assert words == ["replay", "report", "rescore", "retain", "retry", "--failed-of"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_every_shell_calls_ab(shell: str) -> None:
    script = CliRunner().invoke(root, ["completion", shell]).output
    assert f"_AB_COMPLETE={shell}_complete" in script
