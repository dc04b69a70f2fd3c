"""The scorer that runs a command where the agent worked."""

from __future__ import annotations

from agentbench.acceptance.scorers.workspace import Found, Workspace
from agentbench.contract.scorers import CommandSpec
from agentbench.core.command import Command, Completed
from agentbench.core.text import printable

TAIL = 2_000
KEEP = 256 * 1024


def command(spec: CommandSpec, workspace: Workspace) -> Found:
    """
    Raises:
        SandboxError: the sandbox failed, not the command.
    """
    if workspace.run is None:
        return Found("N/A", "there is no live sandbox to run it in: the patch was made elsewhere")
    done = workspace.run(Command(line=spec.command, timeout_sec=float(spec.timeout_s), keep_bytes=KEEP))
    if done.ok:
        return Found("PASS", "exit 0")
    if done.timed_out:
        words = f"ran out of time: {spec.timeout_s} s"
    else:
        words = f"exit {done.exit_code}" + (" (out of memory)" if done.oom else "")
    tail = output_tail(done)
    return Found("FAIL", f"{words}\n{tail}" if tail else words)


def output_tail(done: Completed) -> str:
    """The end of what a command wrote, both streams, fit to be shown."""
    ends = [stream.kept.decode("utf-8", "replace").strip()[-TAIL:] for stream in (done.stdout, done.stderr)]
    return printable("\n".join(end for end in ends if end), keep="\n\t")
