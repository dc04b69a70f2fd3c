"""Find out why the command of a check could not be started, and whose fault that is.

A shell ends with 126 or 127 if a program is missing, is not executable or needs a missing interpreter. A program can end
with them too, so the program is looked up in fresh replicas of the candidate and of the base repository:

    starts on the base repository      the patch broke it: fail
    a path, or a build is declared     the patch had to provide it: fail
    else                               the environment lacks it, a fault of the task: error

A command that no shell can parse is a fault of the task as well.
"""

from __future__ import annotations

import dataclasses
import posixpath

from agentbench.acceptance.candidate import BaseCandidate, Candidate
from agentbench.acceptance.checks.exit_status import CANNOT_START, program_of
from agentbench.acceptance.grading_context import CheckOutcome
from agentbench.acceptance.replica import declares_build
from agentbench.core.command import Command, Completed
from agentbench.core.reasons import Outcome
from agentbench.sandbox.shell_syntax import syntax_error

_SYNTAX_ERROR = 2
"""Exit code of shells that cannot parse their command."""
_NOT_STARTABLE = 3
_LOOKUP = r"""
missing() { echo "$1"; exit 3; }
program=$1
case $program in
  */*) [ -f "$program" ] || missing "\`$program\` does not exist"
       [ -x "$program" ] || missing "\`$program\` is not executable"
       path=$program ;;
  *) path=$(command -v -- "$program") || missing "\`$program\` is not in the environment" ;;
esac
case $path in */*) ;; *) exit 0 ;; esac
IFS= read -r line < "$path" || exit 0
case $line in '#!'*) ;; *) exit 0 ;; esac
set -f
set -- ${line#??}
interpreter=$1
if [ "${1##*/}" = env ]; then
  shift
  while :; do case ${1:-} in -* | *=*) shift ;; *) break ;; esac; done
  interpreter=${1:-env}
fi
command -v -- "$interpreter" > /dev/null && { [ "${interpreter#/}" = "$interpreter" ] || [ -x "$interpreter" ]; } ||
  missing "the interpreter \`$interpreter\` of \`$program\` does not exist"
"""
"""Prints why the program `$1` cannot be started, and then exits with 3."""


def with_start_problem(candidate: Candidate, line: str, completed: Completed, decided: CheckOutcome) -> CheckOutcome:
    """Return the decision, with the reason if the command could not be started.

    Raises:
        BuildFailed, AgentFault: the replica could not be built.
        SandboxError: the sandbox failed.
    """
    if completed.exit_code == _SYNTAX_ERROR and (problem := syntax_error(line)):
        why = f"the command is not valid shell syntax: {problem}"
        return dataclasses.replace(decided, outcome=Outcome.ERROR, why=why, not_started=why)
    context = candidate.context
    folder, program = program_of(line)
    if completed.exit_code not in CANNOT_START or not program:
        return decided
    problem = _start_problem(candidate, folder, program)
    if not problem:
        return decided
    base = BaseCandidate(context.unlogged(), candidate.base)
    on_base = not isinstance(candidate, BaseCandidate) and not _start_problem(base, folder, program)
    outcome, why = Outcome.FAIL, f"cannot be started: {problem}"
    if on_base:
        why += "; it starts on the base repository"
    elif "/" not in program and not declares_build(context):
        outcome, why = Outcome.ERROR, f"command not found: {problem}"
    return dataclasses.replace(decided, outcome=outcome, why=why, not_started=problem, starts_on_base=on_base)


def _start_problem(candidate: Candidate, folder: str, program: str) -> str:
    """Return why a program cannot be started in a replica; empty if it can. Hidden tests could be read by its build."""
    cwd = posixpath.join(candidate.context.spec.workdir, folder)
    with candidate.replica(candidate.tree_without_hidden_tests()) as sandbox:
        done = sandbox.run(Command(argv=("sh", "-c", _LOOKUP, "sh", program), cwd=cwd, timeout_sec=60))
    return done.stdout.kept.decode("utf-8", "replace").strip()[:300] if done.exit_code == _NOT_STARTABLE else ""
