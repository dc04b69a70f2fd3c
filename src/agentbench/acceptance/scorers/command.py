"""The scorer that runs a command in the agent's workspace."""

from __future__ import annotations

from agentbench.acceptance.scorers.workspace import ScorerVerdict, Workspace
from agentbench.contract.scorers import CommandSpec
from agentbench.core.command import Command, Completed
from agentbench.core.text import printable

TAIL = 2_000
KEEP = 256 * 1024


def command(spec: CommandSpec, workspace: Workspace) -> ScorerVerdict:
    """Run the command in the live sandbox. Exit status 0 passes.

    Raises:
        SandboxError: the sandbox failed, not the command.
    """
    if workspace.run is None:
        return ScorerVerdict("N/A", "no live sandbox to run the command in: the patch was created elsewhere")
    completed = workspace.run(Command(line=spec.command, timeout_sec=float(spec.timeout_s), keep_bytes=KEEP))
    if completed.ok:
        return ScorerVerdict("PASS", "exit 0")
    if completed.timed_out:
        reason = f"timed out after {spec.timeout_s} s"
    else:
        reason = f"exit {completed.exit_code}" + (" (out of memory)" if completed.oom else "")
    tail = output_tail(completed)
    return ScorerVerdict("FAIL", f"{reason}\n{tail}" if tail else reason)


def output_tail(completed: Completed) -> str:
    """Return the end of both output streams of a command as printable text."""
    ends = [stream.kept.decode("utf-8", "replace").strip()[-TAIL:] for stream in (completed.stdout, completed.stderr)]
    return printable("\n".join(end for end in ends if end), keep="\n\t")
