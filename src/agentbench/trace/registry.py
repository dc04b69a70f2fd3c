"""Every event type by its name."""

from __future__ import annotations

from agentbench.trace import events, run_events
from agentbench.trace.events import Payload

ATTEMPT_EVENTS: tuple[type[Payload], ...] = (
    events.AttemptOpened,
    events.TaskStarted,
    events.IdentityBound,
    events.SetupCommandStarted,
    events.SetupCommandFinished,
    events.Briefing,
    events.StageChanged,
    events.AgentTurnStarted,
    events.LlmRequest,
    events.LlmResponse,
    events.ToolCallStarted,
    events.ToolCallFinished,
    events.WorkspaceMutated,
    events.PatchApplied,
    events.Delegation,
    events.NetworkRequest,
    events.NetworkResponse,
    events.NetworkUsed,
    events.MonitorAlert,
    events.Intervention,
    events.OperatorDecision,
    events.ResourceSample,
    events.Termination,
    events.PatchExtracted,
    events.BuildStarted,
    events.BuildFinished,
    events.StaticStarted,
    events.StaticFinished,
    events.TestsStarted,
    events.TestsFinished,
    events.AcceptanceCheck,
    events.IntegrityFinding,
    events.ScorerResult,
    events.JudgeResult,
    events.GatesDecided,
    events.TaskFinished,
    events.AttemptClosed,
)
"""In the order in which an attempt meets them."""

RUN_EVENTS: tuple[type[Payload], ...] = (
    run_events.RunOpened,
    run_events.AttemptBegun,
    run_events.AttemptSealed,
    run_events.RunResumed,
    run_events.RunClosed,
    run_events.RunReduced,
)

EVENT_TYPES: dict[str, type[Payload]] = {model.type: model for model in (*ATTEMPT_EVENTS, *RUN_EVENTS)}
