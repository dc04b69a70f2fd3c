"""Decide a command by its exit status, and recognise programs that the environment does not have."""

from __future__ import annotations

import re
import shlex

from agentbench.acceptance.grading_context import GradingContext, StepResult
from agentbench.acceptance.replica import base_tree, declares_build, open_replica
from agentbench.core.command import Command, Completed
from agentbench.core.reasons import Outcome

CANNOT_START = frozenset({126, 127})
"""Exit codes of a shell whose command is not executable or not found. Programs can exit with them too."""
OUT_OF_MEMORY = "out of memory: a process was killed"
_PROGRAM_NAME = re.compile(r"[\w.+/-]+")
"""A program's name. Brackets, redirections and variables are shell syntax, not programs that could be missing."""


def exit_outcome(completed: Completed, ceiling_sec: float) -> tuple[Outcome, str]:
    """Return pass for exit 0, and fail with the reason otherwise: code of the candidate can cause any other exit."""
    if completed.timed_out:
        return Outcome.FAIL, timed_out(completed, f"limit {ceiling_sec:g} s")
    if completed.exit_code == 0:
        return Outcome.PASS, ""
    if completed.oom:
        return Outcome.FAIL, OUT_OF_MEMORY
    if completed.signal is not None:
        return Outcome.FAIL, f"killed by signal {completed.signal}"
    return Outcome.FAIL, f"exit {completed.exit_code}"


def timed_out(completed: Completed, limit: str) -> str:
    return f"timed out after {completed.duration_sec:.1f} s ({limit})"


def step_result(context: GradingContext, step: str, line: str, completed: Completed, ceiling_sec: float) -> StepResult:
    """Decide a build or static step by how its command ended."""
    program = missing_program(context, line, completed, built=step != "build")
    if program:
        return StepResult(step, Outcome.ERROR, f"command not found: `{program}` is not in the environment")
    return StepResult(step, *exit_outcome(completed, ceiling_sec))


def missing_program(context: GradingContext, line: str, completed: Completed, *, built: bool = True) -> str:
    """Return the program of a command that was not found, if the environment does not have it; else an empty string.

    Only a bare name counts, and none after a declared build (`built`): a path in the workspace, or a program that the
    build installs, may be the candidate's to provide.

    Raises:
        SandboxError: the sandbox failed.
    """
    if completed.exit_code not in CANNOT_START or (built and declares_build(context)):
        return ""
    _, program = program_of(line)
    if not program or "/" in program:
        return ""
    with open_replica(context, base_tree(context)) as sandbox:
        lookup = Command(
            argv=("sh", "-c", 'command -v -- "$1"', "sh", program), cwd=context.spec.workdir, timeout_sec=30
        )
        return "" if sandbox.run(lookup).ok else program


def program_of(line: str) -> tuple[str, str]:
    """Return the folder that a command changes to, and the first word it runs; both empty if only a shell could tell."""
    folder = ""
    try:
        words = shlex.split(line)
    except ValueError:
        return "", ""
    if words[:1] == ["cd"] and words[2:3] == ["&&"]:
        folder, words = words[1], words[3:]
    for word in words:
        name, is_assignment, _ = word.partition("=")
        if not (is_assignment and name.isidentifier()):
            return (folder, word) if _PROGRAM_NAME.fullmatch(word) else ("", "")
    return "", ""
