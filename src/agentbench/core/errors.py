"""The error tree.

    AgentBenchError
    ├── InputError            bad usage or bad input: exit 2, names the place and the fix
    │   └── ContractError     one or more problems in a task, suite or lock file
    ├── HarnessError          our own trouble: exit 3; never the agent's failure
    │   ├── SandboxError      the sandbox could not do its work        → SANDBOX_ERROR
    │   │   └── SandboxUnavailable   no backend, image, permission
    │   ├── WorkspaceError    cache, disk, extraction                  → SANDBOX_ERROR
    │   └── RecordError       run directory, log, manifest             → SANDBOX_ERROR
    ├── TaskError             the task's own trouble: the run is invalid, cause `task`
    │   ├── SourceError       R cannot be had as pinned                → SETUP_FAILED
    │   ├── SetupFailed       a setup command failed                   → SETUP_FAILED
    │   └── BaselineNotFailing  the failing command passes on R        → BASELINE_NOT_FAILING
    ├── AgentFault            the agent's own trouble: scored on what is there
    │   ├── PatchInvalid      Δ cannot be applied or is refused        → PATCH_INVALID
    │   ├── ToolFault         a tool call was refused or failed        → TOOL_ERROR
    │   ├── AgentCrashed      the agent's own code ended badly         → TOOL_ERROR
    │   └── ModelFault        the model gave up                        → LLM_ERROR
    └── Interrupted           Ctrl-C, SIGTERM: exit 130                → INTERRUPTED

Every class that can end an attempt carries the reason code it becomes, so the map from error to
code is total by construction.
"""

from __future__ import annotations

from typing import ClassVar

from agentbench.core.reasons import Reason


class AgentBenchError(Exception):
    """Base of every expected error. `str(error)` is one clear message; `remedy` says what to do."""

    exit_code: ClassVar[int] = 3
    reason: ClassVar[Reason | None] = None

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class InputError(AgentBenchError):
    """Bad usage or bad input."""

    exit_code = 2


class ContractError(InputError):
    """A task, suite, scenario or lock file that cannot be accepted; carries all its problems."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.problems = problems


class HarnessError(AgentBenchError):
    """Our own trouble. It makes a run invalid and can never become `fail` or `pass`."""

    reason = Reason.SANDBOX_ERROR


class SandboxError(HarnessError):
    """The sandbox could not do its work."""


class SandboxUnavailable(SandboxError):
    """No backend, image or permission to start a sandbox at all."""


class WorkspaceError(HarnessError):
    """The host side of a workspace failed: cache, disk, extraction."""


class RecordError(HarnessError):
    """The run directory, a log or a manifest could not be written or read."""


class TaskError(AgentBenchError):
    """The task's own trouble. The run is invalid, its cause is the task."""

    reason = Reason.SETUP_FAILED


class SourceError(TaskError):
    """R cannot be had as it is pinned: unreachable, missing commit, wrong digest, refused archive."""


class SetupFailed(TaskError):
    """A setup command failed."""


class BaselineNotFailing(TaskError):
    """The check that must fail on R passes."""

    reason = Reason.BASELINE_NOT_FAILING


class AgentFault(AgentBenchError):
    """The agent's own trouble. The attempt is scored on what is there."""

    reason = Reason.TOOL_ERROR


class PatchInvalid(AgentFault):
    """Δ cannot be applied, or contains what a patch may not contain."""

    reason = Reason.PATCH_INVALID


class ToolFault(AgentFault):
    """A tool call was refused or could not be carried out; `kind` is the tool result's error_type."""

    def __init__(self, message: str, *, kind: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind


class AgentCrashed(AgentFault):
    """The agent's own program ended badly."""


class ModelFault(AgentFault):
    """The model's service gave up for good."""

    reason = Reason.LLM_ERROR


class Interrupted(AgentBenchError):
    """Ctrl-C or SIGTERM."""

    exit_code = 130
    reason = Reason.INTERRUPTED
