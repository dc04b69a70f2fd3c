"""Deciding a command by how it ended, and telling a candidate's failure from a command that was never there."""

from __future__ import annotations

import re
import shlex

from agentbench.acceptance.grading_context import GradingContext, StepResult
from agentbench.acceptance.replica import base_tree, declares_build, open_replica
from agentbench.core.command import Command, Completed
from agentbench.core.reasons import Outcome

NOT_EXECUTABLE, NOT_FOUND = 126, 127
_PLAIN = re.compile(r"[\w.+/-]+")
"""A program's name and nothing of a shell's own: brackets, redirections and variables are no program that could be missing."""


def ending(completed: Completed, ceiling_sec: float) -> tuple[Outcome, str]:
    """Pass for exit 0, fail for everything else that a candidate's own code can bring about."""
    if completed.timed_out:
        return Outcome.FAIL, f"ran out of time: {completed.duration_sec:.1f} s of {ceiling_sec:g} s"
    if completed.exit_code == 0:
        return Outcome.PASS, ""
    if completed.oom:
        return Outcome.FAIL, "a process was killed for memory"
    if completed.signal is not None:
        return Outcome.FAIL, f"killed by signal {completed.signal}"
    return Outcome.FAIL, f"exit {completed.exit_code}"


def step_result(context: GradingContext, step: str, line: str, completed: Completed, ceiling_sec: float) -> StepResult:
    """Decide a build or static step by how its command ended."""
    outcome, why = ending(completed, ceiling_sec)
    program = missing_program(context, line, completed, built=step != "build")
    if program:
        return StepResult(step, Outcome.ERROR, f"the command does not exist: `{program}` is not in the environment")
    return StepResult(step, outcome, why)


def missing_program(context: GradingContext, line: str, completed: Completed, *, built: bool = True) -> str:
    """The program of a command that ended as not found, if the environment itself does not have it; else empty.

    Only a bare name counts, and with a build before the command (`built`) none: a path in the workspace, or a program
    that a build installs, may be the candidate's to provide.

    Raises:
        SandboxError: ours.
    """
    if completed.exit_code not in {NOT_EXECUTABLE, NOT_FOUND} or (built and declares_build(context)):
        return ""
    program = _program(line)
    if not program or "/" in program:
        return ""
    with open_replica(context, base_tree(context)) as sandbox:
        look = Command(argv=("sh", "-c", 'command -v -- "$1"', "sh", program), cwd=context.spec.workdir, timeout_sec=30)
        return "" if sandbox.run(look).ok else program


def _program(line: str) -> str:
    """The first word that is run: after assignments and `cd folder &&`. Empty where only a shell can tell what it is."""
    try:
        words = shlex.split(line)
    except ValueError:
        return ""
    if words[:1] == ["cd"] and words[2:3] == ["&&"]:
        words = words[3:]
    for word in words:
        name, is_assignment, _ = word.partition("=")
        if not (is_assignment and name.isidentifier()):
            return word if _PLAIN.fullmatch(word) else ""
    return ""
