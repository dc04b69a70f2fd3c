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
    "AgentFactory": "agents.base",
    "AgentSetup": "agents.base",
    "Alert": "execution.attempt.monitors",
    "AttemptCall": "execution.executor_function",
    "AttemptFinished": "api.progress",
    "AttemptRecord": "record.schema",
    "AttemptStarted": "api.progress",
    "ChangedText": "acceptance.scorers.workspace",
    "Comparison": "api.runs",
    "ContractError": "core.errors",
    "Event": "trace.chain",
    "ExecutorFunction": "execution.executor_function",
    "Exporter": "api.exporters",
    "HarnessError": "core.errors",
    "Importer": "authoring.formats.importer",
    "InputError": "core.errors",
    "LoadedTask": "contract.load",
    "Message": "models.protocol",
    "Model": "models.protocol",
    "Monitor": "execution.attempt.monitors",
    "Note": "api.progress",
    "Observability": "core.reasons",
    "OperatorAsked": "api.progress",
    "PhaseStarted": "api.progress",
    "ProgressEvent": "api.progress",
    "Reply": "models.protocol",
    "ReportSection": "api.report_sections",
    "ResultParser": "acceptance.checks.result_parser",
    "Run": "api.runs",
    "RunPlanned": "api.progress",
    "RunResult": "api.run",
    "RunnerOutput": "acceptance.checks.result_parser",
    "SandboxBackend": "sandbox.protocol",
    "SandboxFactory": "sandbox.registry",
    "SandboxSpec": "sandbox.protocol",
    "Scorer": "acceptance.scorers.workspace",
    "ScorerVerdict": "acceptance.scorers.workspace",
    "Session": "tools.session",
    "Suite": "contract.suite",
    "TaskError": "core.errors",
    "TaskValidation": "acceptance.validation",
    "TestResults": "acceptance.checks.result_parser",
    "ToolCall": "models.protocol",
    "ToolResult": "tools.result",
    "ToolSpec": "models.protocol",
    "Workspace": "acceptance.scorers.workspace",
    "adapted_backend": "sandbox.adapted_backend",
    "agent": "api.agents",
    "compare": "api.runs",
    "grade": "api.run",
    "import_tasks": "api.tasks",
    "load_suite": "api.tasks",
    "load_task": "api.tasks",
    "open_run": "api.runs",
    "register": "api.extensions",
    "run": "api.run",
    "stopped": "agents.base",
    "validate": "api.tasks",
}
"""Public name -> module that defines it."""

if TYPE_CHECKING:
    from agentbench.acceptance.checks.result_parser import ResultParser, RunnerOutput, TestResults
    from agentbench.acceptance.scorers.workspace import ChangedText, Scorer, ScorerVerdict, Workspace
    from agentbench.acceptance.validation import TaskValidation
    from agentbench.agents.base import Agent, AgentExit, AgentFactory, AgentSetup, stopped
    from agentbench.api.agents import agent
    from agentbench.api.exporters import Exporter
    from agentbench.api.extensions import register
    from agentbench.api.progress import (
        AttemptFinished,
        AttemptStarted,
        Note,
        OperatorAsked,
        PhaseStarted,
        ProgressEvent,
        RunPlanned,
    )
    from agentbench.api.report_sections import ReportSection
    from agentbench.api.run import RunResult, grade, run
    from agentbench.api.runs import Comparison, Run, compare, open_run
    from agentbench.api.tasks import import_tasks, load_suite, load_task, validate
    from agentbench.authoring.formats.importer import Importer
    from agentbench.contract.load import LoadedTask
    from agentbench.contract.suite import Suite
    from agentbench.core.errors import AgentBenchError, ContractError, HarnessError, InputError, TaskError
    from agentbench.core.reasons import Observability
    from agentbench.execution.attempt.monitors import Alert, Monitor
    from agentbench.execution.executor_function import AttemptCall, ExecutorFunction
    from agentbench.models.protocol import Message, Model, Reply, ToolCall, ToolSpec
    from agentbench.record.schema import AttemptRecord
    from agentbench.sandbox.adapted_backend import adapted_backend
    from agentbench.sandbox.protocol import SandboxBackend, SandboxSpec
    from agentbench.sandbox.registry import SandboxFactory
    from agentbench.tools.result import ToolResult
    from agentbench.tools.session import Session
    from agentbench.trace.chain import Event

__all__ = [
    "Agent",
    "AgentBenchError",
    "AgentExit",
    "AgentFactory",
    "AgentSetup",
    "Alert",
    "AttemptCall",
    "AttemptFinished",
    "AttemptRecord",
    "AttemptStarted",
    "ChangedText",
    "Comparison",
    "ContractError",
    "Event",
    "ExecutorFunction",
    "Exporter",
    "HarnessError",
    "Importer",
    "InputError",
    "LoadedTask",
    "Message",
    "Model",
    "Monitor",
    "Note",
    "Observability",
    "OperatorAsked",
    "PhaseStarted",
    "ProgressEvent",
    "Reply",
    "ReportSection",
    "ResultParser",
    "Run",
    "RunPlanned",
    "RunResult",
    "RunnerOutput",
    "SandboxBackend",
    "SandboxFactory",
    "SandboxSpec",
    "Scorer",
    "ScorerVerdict",
    "Session",
    "Suite",
    "TaskError",
    "TaskValidation",
    "TestResults",
    "ToolCall",
    "ToolResult",
    "ToolSpec",
    "Workspace",
    "adapted_backend",
    "agent",
    "compare",
    "grade",
    "import_tasks",
    "load_suite",
    "load_task",
    "open_run",
    "register",
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
