"""The error tree.

    AgentBenchError
    ├── InputError            bad usage or bad input: exit 2, names the place and the fix
    │   └── ContractError     one or more problems in a task, suite or lock file
    ├── HarnessError          the infrastructure failed: exit 3; never the agent's failure
    │   ├── SandboxError      a sandbox failed                         → SANDBOX_ERROR
    │   │   ├── SandboxUnavailable   no backend, image, permission
    │   │   └── SandboxLost   it ended or stopped answering while open
    │   ├── WorkspaceError    cache, disk, extraction                  → SANDBOX_ERROR
    │   └── RecordError       run directory, log, manifest             → SANDBOX_ERROR
    ├── TaskError             the task is at fault: the attempt is invalid, cause `task`
    │   ├── SourceError       the base repository cannot be fetched    → SETUP_FAILED
    │   ├── SetupFailed       a setup command failed                   → SETUP_FAILED
    │   ├── LockMismatch      the task is not what its lock pins       → SETUP_FAILED
    │   └── BaselineNotFailing  the baseline passes                    → BASELINE_NOT_FAILING
    ├── AgentFault            the agent is at fault: its patch is graded as it is
    │   ├── PatchInvalid      the patch cannot be applied              → PATCH_INVALID
    │   ├── ToolFault         a tool call was denied or failed         → TOOL_ERROR
    │   ├── AgentCrashed      the agent's program crashed              → TOOL_ERROR
    │   ├── SandboxBroken     it lost its sandbox, on a sound host     → SAFETY_STOP
    │   └── ModelFault        the model service failed for good        → LLM_ERROR
    └── Interrupted           Ctrl-C, SIGTERM: exit 130                → INTERRUPTED
        └── TotalBudgetSpent  a cap over several attempts is spent     → INTERRUPTED

Every class that can end an attempt carries its reason code, so the map from errors to codes is total.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import ClassVar

from agentbench.core.host_evidence import HostEvidence
from agentbench.core.reasons import Reason


class AgentBenchError(Exception):
    """Base of every expected error. `str(error)` is the message; `remedy` says what to do."""

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
    """An invalid task, suite, scenario or lock file, with all its problems."""

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.problems = problems


class HarnessError(AgentBenchError):
    """The infrastructure failed. The attempt is invalid and never counts as `fail` or `pass`."""

    reason = Reason.SANDBOX_ERROR


class SandboxError(HarnessError):
    """A sandbox failed."""


class SandboxUnavailable(SandboxError):
    """No sandbox can be started: no backend, image or permission."""


class SandboxLost(SandboxError):
    """An open sandbox ended or stopped answering, and none of its limits explains that.

    The evidence tells whether the host did. If it did not, and code of an agent or a candidate ran, that code is at fault
    (`SandboxBroken`).
    """

    def __init__(self, message: str, *, sandbox: str, evidence: HostEvidence, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.sandbox = sandbox
        self.evidence = evidence


class WorkspaceError(HarnessError):
    """The host side of a workspace failed: cache, disk, extraction."""


class RecordError(HarnessError):
    """The run directory, a log or a manifest could not be written or read."""

    @classmethod
    def of(cls, operation: str, path: Path, error: OSError) -> RecordError:
        """Return the error for a failed file operation: `cannot <operation> <path>: <reason>`."""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return cls(
            f"cannot {operation} {path}: {error.strerror or error}",
            remedy="free some disk space and resume the run" if full else "",
        )


class TaskError(AgentBenchError):
    """The task is at fault. The attempt is invalid with cause `task`."""

    reason = Reason.SETUP_FAILED


class SourceError(TaskError):
    """The base repository cannot be fetched as pinned: unreachable, missing commit, wrong digest, unsafe archive."""


class SetupFailed(TaskError):
    """A setup command failed."""


class LockMismatch(TaskError):
    """The base repository, the image or the prepared environment differs from what the task and its lock pin."""


class BaselineNotFailing(TaskError):
    """The checks already pass on the base repository."""

    reason = Reason.BASELINE_NOT_FAILING


class AgentFault(AgentBenchError):
    """The agent is at fault. Its patch is graded as it is."""

    reason = Reason.TOOL_ERROR


class PatchInvalid(AgentFault):
    """The patch cannot be applied, or contains something that a patch may not contain."""

    reason = Reason.PATCH_INVALID


class ToolFault(AgentFault):
    """A tool call was denied or failed; `kind` is the `error_type` of the tool result."""

    def __init__(self, message: str, *, kind: str, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.kind = kind


class AgentCrashed(AgentFault):
    """The agent's program crashed."""


class SandboxBroken(AgentFault):
    """Code of the agent or the candidate ended its sandbox or made it stop answering; the host shows no trouble."""

    reason = Reason.SAFETY_STOP


class ModelFault(AgentFault):
    """The model service failed for good."""

    reason = Reason.LLM_ERROR


class Interrupted(AgentBenchError):
    """Ctrl-C or SIGTERM."""

    exit_code = 130
    reason = Reason.INTERRUPTED


class TotalBudgetSpent(Interrupted):
    """A cap over several attempts (`--task-usd`, `--total-usd`) was spent before this one started."""
