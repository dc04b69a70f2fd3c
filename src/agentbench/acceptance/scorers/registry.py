"""Which function decides which type of scorer: explicit, and complete by a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from agentbench.acceptance.scorers.command import command
from agentbench.acceptance.scorers.content import assertions_not_weakened, forbid_secrets, no_new_skips
from agentbench.acceptance.scorers.paths import allowed_paths, file_exists, forbid_paths, max_files_changed, unmodified
from agentbench.acceptance.scorers.workspace import Found, Workspace
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
Check = Callable[[ScorerSpec, Workspace], Found]


def _of(kind: type[S], check: Callable[[S, Workspace], Found]) -> Check:
    def decide(spec: ScorerSpec, workspace: Workspace) -> Found:
        if not isinstance(spec, kind):
            raise TypeError(f"{spec.type} is not what {kind.__name__} describes")
        return check(spec, workspace)

    return decide


def _note(_spec: LlmJudgeSpec, _workspace: Workspace) -> Found:
    return Found("N/A", "a note for the judge")


CHECKS: Mapping[str, Check] = {
    "command": _of(CommandSpec, command),
    "allowed_paths": _of(AllowedPathsSpec, allowed_paths),
    "forbid_paths": _of(ForbidPathsSpec, forbid_paths),
    "max_files_changed": _of(MaxFilesChangedSpec, max_files_changed),
    "forbid_secrets": _of(ForbidSecretsSpec, forbid_secrets),
    "file_exists": _of(FileExistsSpec, file_exists),
    "tests_unmodified": _of(TestsUnmodifiedSpec, unmodified),
    "baseline_unmodified": _of(BaselineUnmodifiedSpec, unmodified),
    "no_new_skips": _of(NoNewSkipsSpec, no_new_skips),
    "assertions_not_weakened": _of(AssertionsNotWeakenedSpec, assertions_not_weakened),
    "llm_judge": _of(LlmJudgeSpec, _note),
}
CHANGED_FILES = frozenset(CHECKS) - {"command", "file_exists", "llm_judge"}
"""Those that need to know what changed."""
