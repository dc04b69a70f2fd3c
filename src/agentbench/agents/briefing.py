"""The briefing: the description of a task that every agent gets, always in the same form.

The issue is separate from the acceptance section, which is general: it has no command, test name or file of the checks, and
nothing of a reference solution. The text is versioned: a change needs a new `VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentbench.contract.schema import Check, Task
from agentbench.policy.stages import PLAN, REQUEST_STAGE, TOOL_STAGES
from agentbench.tools.rules import Rules
from agentbench.tools.session import BriefingText

VERSION = "briefing_v1"


def write_briefing(task: Task, statement: str, checks: Sequence[Check], rules: Rules) -> BriefingText:
    """Write the briefing. The same task under the same rules always gives the same text."""
    parts = {
        "issue": statement.strip(),
        "hints": _hints(task),
        "environment": _environment(task),
        "rules": _rules(rules),
        "acceptance": _acceptance(task, checks),
    }
    sections = [f"## {name.capitalize()}\n\n{text}\n" for name, text in parts.items() if text]
    text = f"# Task {task.id}\n\n" + "\n".join(sections)
    return BriefingText(text, {"version": VERSION, **{name: part for name, part in parts.items() if part}})


def _hints(task: Task) -> str:
    hints = task.hints
    hinted = (
        ("Run the tests with", _code(hints.test_command)),
        ("Build with", _code(hints.build_command)),
        ("Modules concerned", ", ".join(map(_code, hints.target_modules))),
        ("Entry points", ", ".join(map(_code, hints.entry_points))),
        ("Expected behaviour", (hints.expected_behaviour or "").strip()),
    )
    return _listed(f"{label}: {text}" for label, text in hinted if text)


def _environment(task: Task) -> str:
    environment = task.environment
    facts = [
        f"There is no project. {_code(environment.workdir)} is an empty folder for your notes; commands start there."
        if task.repo == "none"
        else f"The project is in {_code(environment.workdir)}; commands start there."
    ]
    if environment.python:
        facts.append(f"`python` is Python {environment.python}.")
    if environment.network_policy == "always" and environment.network_allow:
        facts.append(f"Network: only {', '.join(map(_code, environment.network_allow))}, recorded.")
    else:
        facts.append("There is no network. What the project needs is installed.")
    facts.append(
        f"Limits: {environment.cpu_limit:g} CPUs, {environment.mem_limit_mb} MB memory, "
        f"{environment.pids_limit} processes, {environment.disk_limit_mb} MB disk."
    )
    return _listed(facts)


def _rules(rules: Rules) -> str:
    caps = rules.caps
    calls = f"{caps.budget.tool_calls} tool calls, " if caps.budget.tool_calls is not None else ""
    rules_text = [
        f"At most {calls}{caps.wall_sec:g} seconds in all, {caps.tool_timeout_sec:g} seconds per command.",
    ]
    if not rules.allow_write:
        rules_text.append("No file may be changed.")
    elif rules.editable_globs:
        rules_text.append(f"Change only files that match: {', '.join(map(_code, rules.editable_globs))}.")
    if rules.revert_outside:
        rules_text.append("What a command changes elsewhere is put back when it has ended.")
    if rules.readable_globs:
        rules_text.append(f"Read only files that match: {', '.join(map(_code, rules.readable_globs))}.")
    if rules.deny_commands:
        rules_text.append(f"Never run commands like: {', '.join(_code(rule.pattern) for rule in rules.deny_commands)}.")
    if rules.tools:
        rules_text.append(f"Only these tools are allowed: {', '.join(rules.tools)}.")
    if rules.stage_mode == "strict":
        rules_text += _stages(rules)
    return _listed(rules_text)


def _stages(rules: Rules) -> list[str]:
    tools = {
        stage: [
            name for name, needed in TOOL_STAGES.items() if needed == stage and name in (rules.tools or TOOL_STAGES)
        ]
        for stage in rules.stages
    }
    granted = "; ".join(f"{_code(stage)} grants {', '.join(names)}" for stage, names in tools.items() if names)
    lines = [
        f"You work in stages, in this order: {', '.join(map(_code, rules.stages))}. You start in the first. {granted}.",
        f"A tool of a later stage returns `stage_denied`. Ask for the next stage with {_code(REQUEST_STAGE)} and a reason.",
        "No stage can be skipped; tools of earlier stages stay available.",
    ]
    if PLAN in rules.stages:
        lines.append("To leave the stage `plan`, give your plan as the reason: which files you will change and how.")
    return lines


def _acceptance(task: Task, checks: Sequence[Check]) -> str:
    if task.repo == "none":
        return _listed(["What you say is read and judged.", "Files you leave behind are not looked at."])
    lines = [
        "Your change is what differs between the workspace you found and the one you leave.",
        "It is put on a fresh copy of the project, in a sandbox you have no access to, and judged there.",
        "It must apply cleanly" + _requirements(task, checks) + ".",
        "Checks may contain tests that you cannot see. Tests you add are welcome.",
        "Tests and test configuration that belong to the checks are restored before they run: editing them changes nothing.",
        "Generated files (caches, build output) are left out.",
    ]
    return _listed(lines)


def _requirements(task: Task, checks: Sequence[Check]) -> str:
    requirements = []
    if task.oracle.build != "none":
        requirements.append("the project must build")
    if task.oracle.static != "none":
        requirements.append("static checks must hold")
    mandatory = [check for check in checks if check.mandatory]
    if mandatory:
        layers = ", ".join(sorted({check.layer for check in mandatory}))
        count = "1 check" if len(mandatory) == 1 else f"{len(mandatory)} checks"
        requirements.append(f"{count} ({layers}) must pass, and behaviour that is right today must stay right")
    return "".join(f"; {requirement}" for requirement in requirements)


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""
