"""Maps each scorer type to the function that decides it. A test checks that the map is complete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from agentbench.acceptance.scorers.command import command
from agentbench.acceptance.scorers.content import assertions_not_weakened, forbid_secrets, no_new_skips
from agentbench.acceptance.scorers.paths import allowed_paths, file_exists, forbid_paths, max_files_changed, unmodified
from agentbench.acceptance.scorers.workspace import ScorerVerdict, Workspace
from agentbench.contract.scorers import (
    AllowedPathsSpec,
    AssertionsNotWeakenedSpec,
    BaselineUnmodifiedSpec,
    CommandSpec,
    FileExistsSpec,
    ForbidPathsSpec,
    ForbidSecretsSpec,
    LlmJudgeSpec,
    MaxFilesChangedSpec,
    NoNewSkipsSpec,
    ScorerSpec,
    TestsUnmodifiedSpec,
)

S = TypeVar("S", bound=ScorerSpec)
Check = Callable[[ScorerSpec, Workspace], ScorerVerdict]


def _typed(spec_type: type[S], check: Callable[[S, Workspace], ScorerVerdict]) -> Check:
    def decide(spec: ScorerSpec, workspace: Workspace) -> ScorerVerdict:
        if not isinstance(spec, spec_type):
            raise TypeError(f"{spec.type} is not a {spec_type.__name__}")
        return check(spec, workspace)

    return decide


def _judge_note(_spec: LlmJudgeSpec, _workspace: Workspace) -> ScorerVerdict:
    return ScorerVerdict("N/A", "note for the judge")


CHECKS: Mapping[str, Check] = {
    "command": _typed(CommandSpec, command),
    "allowed_paths": _typed(AllowedPathsSpec, allowed_paths),
    "forbid_paths": _typed(ForbidPathsSpec, forbid_paths),
    "max_files_changed": _typed(MaxFilesChangedSpec, max_files_changed),
    "forbid_secrets": _typed(ForbidSecretsSpec, forbid_secrets),
    "file_exists": _typed(FileExistsSpec, file_exists),
    "tests_unmodified": _typed(TestsUnmodifiedSpec, unmodified),
    "baseline_unmodified": _typed(BaselineUnmodifiedSpec, unmodified),
    "no_new_skips": _typed(NoNewSkipsSpec, no_new_skips),
    "assertions_not_weakened": _typed(AssertionsNotWeakenedSpec, assertions_not_weakened),
    "llm_judge": _typed(LlmJudgeSpec, _judge_note),
}
CHANGED_FILES = frozenset(CHECKS) - {"command", "file_exists", "llm_judge"}
"""Scorer types that need to know what changed."""
