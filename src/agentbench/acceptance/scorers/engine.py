"""Runs all scorers of a task over one workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentbench.acceptance.scorers.content import assertions_not_weakened, forbid_secrets, no_new_skips
from agentbench.acceptance.scorers.paths import allowed_paths, file_exists, forbid_paths, max_files_changed, unmodified
from agentbench.acceptance.scorers.workspace import ScorerVerdict, Workspace
from agentbench.contract.scorers import OTHER_SCORERS, CommandSpec, LlmJudgeSpec, OtherSpec, ScorerSpec
from agentbench.core.command import Command
from agentbench.core.errors import AgentBenchError
from agentbench.core.text import printable
from agentbench.trace.events import ScorerResult

PPM = 1_000_000
TAIL = 2_000
KEEP = 256 * 1024


def run_scorers(specs: Sequence[ScorerSpec], workspace: Workspace) -> list[ScorerResult]:
    """Return one result per scorer, in their order.

    A failing scorer never ends the attempt: harness errors become ERROR. Commands and plug-ins run last, since they may
    change the tree that the other scorers examine.
    """
    ordered = sorted(range(len(specs)), key=lambda index: isinstance(specs[index], CommandSpec | OtherSpec))
    verdicts = {index: _decide(specs[index], workspace) for index in ordered}
    return [_result(spec, verdicts[index]) for index, spec in enumerate(specs)]


def _decide(spec: ScorerSpec, workspace: Workspace) -> ScorerVerdict:
    if workspace.unknown and (spec.type in CHANGED_FILES or isinstance(spec, OtherSpec)):
        # The agent is responsible for the tree: if its changes cannot be determined, the scorer fails.
        return ScorerVerdict("FAIL", f"changes cannot be determined: {workspace.unknown}")
    try:
        if isinstance(spec, OtherSpec):
            return _of_plugin(spec, workspace)
        return CHECKS[spec.type](spec, workspace)
    except AgentBenchError as error:
        return ScorerVerdict("ERROR", error.message)
    except Exception as error:  # noqa: BLE001 - a bug in a scorer must not cost an attempt its verdict
        return ScorerVerdict("ERROR", f"{type(error).__name__}: {error}")


def _of_plugin(spec: OtherSpec, workspace: Workspace) -> ScorerVerdict:
    verdict = OTHER_SCORERS.get(spec.type)(workspace, spec.options)
    if not isinstance(verdict, ScorerVerdict):
        return ScorerVerdict("ERROR", f"scorer '{spec.type}' returned {type(verdict).__name__}, not a ScorerVerdict")
    return verdict


def _result(spec: ScorerSpec, verdict: ScorerVerdict) -> ScorerResult:
    return ScorerResult(
        name=spec.name,
        scorer_type=spec.type,
        required=spec.is_required and not isinstance(spec, LlmJudgeSpec),
        verdict=verdict.verdict,
        score_ppm=PPM if verdict.verdict == "PASS" else 0,
        detail=verdict.detail,
        command=spec.command if isinstance(spec, CommandSpec) else "",
    )


# --- the function of each type -------------------------------------------------------------------------------------------


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
    ends = [stream.kept.decode("utf-8", "replace").strip()[-TAIL:] for stream in (completed.stdout, completed.stderr)]
    tail = printable("\n".join(end for end in ends if end), keep="\n\t")
    return ScorerVerdict("FAIL", f"{reason}\n{tail}" if tail else reason)


def _judge_note(_spec: LlmJudgeSpec, _workspace: Workspace) -> ScorerVerdict:
    return ScorerVerdict("N/A", "note for the judge")


CHECKS: Mapping[str, Callable[[Any, Workspace], ScorerVerdict]] = {
    "command": command,
    "allowed_paths": allowed_paths,
    "forbid_paths": forbid_paths,
    "max_files_changed": max_files_changed,
    "forbid_secrets": forbid_secrets,
    "file_exists": file_exists,
    "tests_unmodified": unmodified,
    "baseline_unmodified": unmodified,
    "no_new_skips": no_new_skips,
    "assertions_not_weakened": assertions_not_weakened,
    "llm_judge": _judge_note,
}
"""Scorer type → its function, which takes a spec of that type."""
CHANGED_FILES = frozenset(CHECKS) - {"command", "file_exists", "llm_judge"}
"""Scorer types that need to know what changed."""
