"""The rules of `monitors.json` as data, and the rules that a task adds. `monitors` applies them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Literal

from agentbench.core.canonical import Json, digest
from agentbench.core.dataclass import dataclass

Action = Literal["note", "throttle", "deny", "kill", "pause", "quarantine", "terminate"]
Severity = Literal["note", "penalty", "gate", "terminate"]
Form = Literal["command", "line", "code", "text"]
FORMS: tuple[Form, ...] = ("command", "line", "code", "text")
_NEGATED = re.compile(
    r"(?:\bnot\b|n't\b|\bnever\b|\bwithout\b|\bavoid|\brefus|\bno need\b|\bcannot\b|\binstead of\b)[^.\n]{0,40}$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of `monitors.json`: patterns by form, and `hints`, words without which no pattern can match."""

    id: str
    action: Action
    severity: Severity
    description: str
    hints: Mapping[Form, tuple[str, ...]]
    patterns: Mapping[Form, tuple[str, ...]]
    with_operator: Action | None = None

    def match(self, form: Form, subject: str) -> str | None:
        """Return the part of a subject that violates the rule."""
        for text in self.patterns.get(form, ()):
            pattern = _compiled(text, re.IGNORECASE if form == "text" else re.NOFLAG)
            # Commands are matched from their first word: a mention in an argument is not a violation.
            match = pattern.match(subject) if form == "command" else pattern.search(subject)
            if match is not None and not (form == "text" and _NEGATED.search(subject[: match.start()])):
                return match[0]
        return None


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules, and the digest that manifests refer to them by."""

    rules: tuple[Rule, ...]
    digest: str
    hints: Mapping[Form, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)

    def candidates(self, form: Form, text: str) -> list[tuple[Rule, list[str]]]:
        """Return the rules that may match, with the hints found in the text; usually none."""
        lowered = text.lower()
        hints: dict[int, list[str]] = {}
        for hint, indices in self.hints[form].items():
            if hint in lowered:
                for index in indices:
                    hints.setdefault(index, []).append(hint)
        return [(self.rules[index], hints[index]) for index in sorted(hints)]


@dataclass(frozen=True, slots=True)
class ContractRules:
    """Rules that a task adds: denied command patterns with their severity, and whether new dependencies are allowed."""

    deny_commands: tuple[tuple[str, Literal["gate", "penalty"]], ...] = ()
    allow_new_dependencies: bool = True
    dependency_severity: Literal["gate", "penalty"] = "penalty"
    operator: bool = False
    """An operator is available: rules with `with_operator` pause instead of deciding."""
    read_output: bool = False
    """The output of a program that acts as the agent is read. False in manifests of versions that did not."""
    known_packages: tuple[str, ...] | None = None
    """Python packages that the task knows. None: unknown, so no package is reported as unknown."""


@cache
def published_rules() -> RuleSet:
    """Return the rules of this version."""
    return parse_rules(_published())


def published_document() -> Json:
    """Return the rule file of this version as JSON."""
    document: Json = json.loads(_published())
    return document


def _published() -> str:
    return Path(__file__).with_name("monitors.json").read_text(encoding="utf-8")


def parse_rules(text: str) -> RuleSet:
    """
    Raises:
        ValueError: not a rule file.
    """
    document = json.loads(text)
    parts: Mapping[str, str] = document["parts"]
    rules = tuple(_rule(rule, parts) for rule in document["rules"])
    return RuleSet(rules, digest(document), {form: _hints(form, rules) for form in FORMS})


def _hints(form: Form, rules: Sequence[Rule]) -> dict[str, tuple[int, ...]]:
    """Map each hint to the indices of its rules."""
    indices: dict[str, tuple[int, ...]] = {}
    for index, rule in enumerate(rules):
        for hint in rule.hints.get(form, ()):
            indices[hint] = (*indices.get(hint, ()), index)
    return indices


def _rule(data: Mapping[str, object], parts: Mapping[str, str]) -> Rule:
    def expanded(form: Form) -> tuple[str, ...]:
        listed = data.get(form, [])
        if not isinstance(listed, list):
            raise TypeError(form)
        return tuple(_expand(str(pattern), parts) for pattern in listed)

    hints = data["hints"]
    if not isinstance(hints, Mapping):
        raise TypeError(data["id"])
    return Rule(
        id=str(data["id"]),
        action=data["action"],  # type: ignore[arg-type]
        severity=data["severity"],  # type: ignore[arg-type]
        description=str(data["description"]),
        hints={form: tuple(map(str, hints.get(form, ()))) for form in FORMS},
        patterns={form: expanded(form) for form in FORMS},
        with_operator=data.get("with_operator"),  # type: ignore[arg-type]
    )


@cache
def _compiled(pattern: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: all of them take a quarter of a second, and grading needs none."""
    return re.compile(pattern, flags)


def _expand(pattern: str, parts: Mapping[str, str]) -> str:
    """Replace `{NAME}` by the shared part of that name."""
    return re.sub(r"\{([A-Z_]+)\}", lambda match: f"(?:{parts[match[1]]})", pattern)
