"""AgentBench: an offline evaluation harness for AI coding agents.

    import agentbench as ab

    result = ab.run(suite="demo", agent="reference", workers=2)
    print(result.runs[0].headline)

Everything public is listed in `__all__` and loaded at its first use. Names in `__all__` keep working within a major version;
all modules of this package are private and may change.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "Agent": "agents.base",
    "AgentBenchError": "core.errors",
    "AgentExit": "agents.base",
    "AgentFactory": "api.agents",
    "AgentSetup": "agents.base",
    "AttemptFinished": "api.progress",
    "AttemptRecord": "record.schema",
    "AttemptStarted": "api.progress",
    "Comparison": "api.runs",
    "ContractError": "core.errors",
    "HarnessError": "core.errors",
    "InputError": "core.errors",
    "LoadedTask": "contract.load",
    "Model": "models.protocol",
    "Note": "api.progress",
    "Observability": "core.reasons",
    "OperatorAsked": "api.progress",
    "PhaseStarted": "api.progress",
    "ProgressEvent": "api.progress",
    "Run": "api.runs",
    "RunPlanned": "api.progress",
    "RunResult": "api.run",
    "Session": "tools.session",
    "Suite": "contract.suite",
    "TaskError": "core.errors",
    "TaskValidation": "acceptance.validation",
    "ToolResult": "tools.result",
    "agent": "api.agents",
    "compare": "api.runs",
    "grade": "api.run",
    "load_suite": "api.tasks",
    "load_task": "api.tasks",
    "open_run": "api.runs",
    "run": "api.run",
    "stopped": "agents.base",
    "validate": "api.tasks",
}
"""Public name -> module that defines it."""

if TYPE_CHECKING:
    from agentbench.acceptance.validation import TaskValidation
    from agentbench.agents.base import Agent, AgentExit, AgentSetup, stopped
    from agentbench.api.agents import AgentFactory, agent
    from agentbench.api.progress import (
        AttemptFinished,
        AttemptStarted,
        Note,
        OperatorAsked,
        PhaseStarted,
        ProgressEvent,
        RunPlanned,
    )
    from agentbench.api.run import RunResult, grade, run
    from agentbench.api.runs import Comparison, Run, compare, open_run
    from agentbench.api.tasks import load_suite, load_task, validate
    from agentbench.contract.load import LoadedTask
    from agentbench.contract.suite import Suite
    from agentbench.core.errors import AgentBenchError, ContractError, HarnessError, InputError, TaskError
    from agentbench.core.reasons import Observability
    from agentbench.models.protocol import Model
    from agentbench.record.schema import AttemptRecord
    from agentbench.tools.result import ToolResult
    from agentbench.tools.session import Session

__all__ = [
    "Agent",
    "AgentBenchError",
    "AgentExit",
    "AgentFactory",
    "AgentSetup",
    "AttemptFinished",
    "AttemptRecord",
    "AttemptStarted",
    "Comparison",
    "ContractError",
    "HarnessError",
    "InputError",
    "LoadedTask",
    "Model",
    "Note",
    "Observability",
    "OperatorAsked",
    "PhaseStarted",
    "ProgressEvent",
    "Run",
    "RunPlanned",
    "RunResult",
    "Session",
    "Suite",
    "TaskError",
    "TaskValidation",
    "ToolResult",
    "agent",
    "compare",
    "grade",
    "load_suite",
    "load_task",
    "open_run",
    "run",
    "stopped",
    "validate",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name not in _PUBLIC:
        raise AttributeError(f"module 'agentbench' has no attribute {name!r}")
    import importlib  # noqa: PLC0415

    value = getattr(importlib.import_module(f"agentbench.{_PUBLIC[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
