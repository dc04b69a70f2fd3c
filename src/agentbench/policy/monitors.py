"""Policy monitors: one engine with rules from a file, over everything a model says or does.

The same rules hold for commands, for code in patches and for plans in plain text; the alert records which of them it was
(`format`). Only what is about to be done can be denied: what is merely said, or written into the repository, is noted.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

from agentbench.core.canonical import Json, digest
from agentbench.core.reasons import TerminationCode
from agentbench.core.text import printable
from agentbench.policy.breakers import Action, Severity, Trip
from agentbench.policy.installs import new_packages
from agentbench.policy.model_actions import Blobs, Form, Utterance, utterances
from agentbench.policy.shell import Script, read_script
from agentbench.policy.text_windows import in_pieces
from agentbench.trace.events import NetworkRequest, Payload

POLICY = "policy"
DENY_COMMANDS = "deny_commands"
MONITORS = frozenset({POLICY, DENY_COMMANDS})
NEW_DEPENDENCY = "dependency.new"
NETWORK_REFUSED = "network.refused"
NETWORK_INSIDE = "network.inside"
"""Asked for something that is no public address: nobody's business but the harness's."""

SHOWN = 300
FORMS: tuple[Form, ...] = ("command", "line", "code", "text")
_NEGATED = re.compile(
    r"(?:\bnot\b|n't\b|\bnever\b|\bwithout\b|\bavoid|\brefus|\bno need\b|\bcannot\b|\binstead of\b)[^.\n]{0,40}$",
    re.IGNORECASE,
)
_SENTENCES = re.compile(r"(?<=[.!?;:])\s+|\n")
_SEPARATORS = re.compile(r"\|\||&&|[;|&\n]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of `monitors.json`. Patterns by form; `hints` are words without which no pattern of that form can match."""

    id: str
    action: Action
    severity: Severity
    description: str
    hints: Mapping[Form, tuple[str, ...]]
    patterns: Mapping[Form, tuple[re.Pattern[str], ...]]
    with_operator: Action | None = None

    def found(self, form: Form, subject: str) -> str | None:
        """The part of a subject that breaks the rule."""
        for pattern in self.patterns.get(form, ()):
            # Commands are matched from their first word: what is only mentioned in an argument is no act.
            match = pattern.match(subject) if form == "command" else pattern.search(subject)
            if match is not None and not (form == "text" and _NEGATED.search(subject[: match.start()])):
                return match[0]
        return None


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules, and the digest by which a manifest names them."""

    rules: tuple[Rule, ...]
    digest: str
    hints: Mapping[Form, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)

    def candidates(self, form: Form, text: str) -> list[tuple[Rule, list[str]]]:
        """Rules that may match, with the hints that were found: for most of what is said there are none."""
        low = text.lower()
        found: dict[int, list[str]] = {}
        for hint, indices in self.hints[form].items():
            if hint in low:
                for index in indices:
                    found.setdefault(index, []).append(hint)
        return [(self.rules[index], found[index]) for index in sorted(found)]


@dataclass(frozen=True, slots=True)
class ContractRules:
    """What a contract adds: denied command patterns with their severity, and its word about new dependencies."""

    deny_commands: tuple[tuple[str, Literal["gate", "penalty"]], ...] = ()
    allow_new_dependencies: bool = True
    dependency_severity: Literal["gate", "penalty"] = "penalty"
    operator: bool = False
    """Somebody can be asked: rules that say so pause instead of deciding alone."""


class PolicyMonitor:
    """Looks at every event; see `Guard`."""

    def __init__(
        self,
        contract: ContractRules | None = None,
        rules: RuleSet | None = None,
        *,
        blobs: Blobs = lambda _name: None,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        self._contract = contract or ContractRules()
        self._rules = rules or published_rules()
        self._blobs = blobs
        self._redact = redact
        # What a log keeps is without secrets: the decision must be the same for who reads it later.

    def __call__(self, seq: int, payload: Payload) -> tuple[Trip, ...]:
        trips = tuple(trip for one in utterances(payload, self._blobs) for trip in self._judge(seq, one))
        if isinstance(payload, NetworkRequest) and payload.refused:
            return (*trips, _turned_down(seq, payload))
        return trips

    def _judge(self, seq: int, said: Utterance) -> Iterator[Trip]:
        text = self._redact(said.text)
        contract = self._contract
        if said.form == "command" and said.acted:
            if (denied := denied_by(text, contract.deny_commands)) is not None:
                pattern, severity = denied
                detail = f"denied command: {_shown(text)}"
                yield Trip(DENY_COMMANDS, pattern, "deny", detail, severity, evidence=(seq,), format="code")
            if not contract.allow_new_dependencies and (packages := new_packages(text)):
                detail = f"installs what the contract does not declare: {_shown(' '.join(packages))}"
                severity = contract.dependency_severity
                yield Trip(POLICY, NEW_DEPENDENCY, "deny", detail, severity, evidence=(seq,), format="code")
        candidates = self._rules.candidates(said.form, text)
        if not candidates:
            return
        subjects = tuple(_subjects(said.form, text))
        for rule, hints in candidates:
            what = _first(rule, hints, subjects)
            if what is not None:
                yield self._trip(seq, rule, said, what)

    def _trip(self, seq: int, rule: Rule, said: Utterance, what: str) -> Trip:
        detail = f"{rule.description}: {_shown(what)}"
        shape: Literal["natural_text", "code"] = "natural_text" if said.form == "text" else "code"
        if not said.acted or said.form != "command":
            return Trip(POLICY, rule.id, "note", detail, evidence=(seq,), format=shape)
        action = rule.with_operator if self._contract.operator and rule.with_operator else rule.action
        code = TerminationCode.SAFETY if action == "terminate" else None
        return Trip(POLICY, rule.id, action, detail, rule.severity, code, evidence=(seq,), format=shape)


def _turned_down(seq: int, request: NetworkRequest) -> Trip:
    """The proxy has refused already: clients ask for this and that by themselves, but none for what is inside by accident."""
    inside = request.refused == "not_public"
    detail = f"the proxy refused {_shown(request.target or request.method)}: {_shown(request.why)}"
    rule, severity = (NETWORK_INSIDE, "penalty") if inside else (NETWORK_REFUSED, "note")
    return Trip(POLICY, rule, "deny", detail, severity, evidence=(seq,), format="code")  # type: ignore[arg-type]


def _first(rule: Rule, hints: Sequence[str], subjects: Sequence[tuple[Form, str, str]]) -> str | None:
    """The first thing that breaks the rule. A sentence without any of the words that were found is not looked at."""
    for form, subject, low in subjects:
        if form == "text" and not any(hint in low for hint in hints):
            continue
        what = rule.found(form, subject)
        if what is not None:
            return what
    return None


def _subjects(form: Form, text: str) -> Iterator[tuple[Form, str, str]]:
    """What patterns are held against: each sentence (also in small letters), code in its lines, each command and pipeline."""
    if form == "text":
        yield from ((form, one, one.lower()) for one in map(in_pieces, _SENTENCES.split(text)))
        return
    if form != "command":
        yield form, in_pieces(text), ""
        return
    script = read_script(text)
    yield "line", in_pieces(text), ""
    yield from (("command", one, "") for one in command_texts(script))
    yield from (("code", in_pieces(one), "") for one in script.embedded)


def command_texts(script: Script) -> Iterator[str]:
    """Each command as its words with single spaces; a command behind a pipe also with all that leads into it."""
    before = ""
    for command in script.commands:
        own = " ".join(command.words)
        yield own
        before = f"{before} | {own}" if command.piped_into and before else own
        if before is not own:
            yield before


def denied_by(
    line: str, patterns: Sequence[tuple[str, Literal["gate", "penalty"]]]
) -> tuple[str, Literal["gate", "penalty"]] | None:
    """The first pattern of a contract that the line, or one command of it, matches.

    A shell has endless ways to say a thing: this tells an agent the rule, it is no boundary. The sandbox is.
    """
    if not patterns:
        return None
    pieces = [line.strip(), *(piece.strip() for piece in _SEPARATORS.split(line))]
    for pattern, severity in patterns:
        if any(fnmatch.fnmatchcase(piece, pattern) for piece in pieces if piece):
            return pattern, severity
    return None


def _shown(text: str) -> str:
    return printable(text[:SHOWN] + ("…" if len(text) > SHOWN else ""))


@cache
def published_rules() -> RuleSet:
    """The rules of this version."""
    return parse_rules(_published())


def published_document() -> Json:
    """The same as the document that they are."""
    document: Json = json.loads(_published())
    return document


def _published() -> str:
    return files("agentbench.policy").joinpath("monitors.json").read_text(encoding="utf-8")


def parse_rules(text: str) -> RuleSet:
    """
    Raises:
        ValueError: not a rule file.
    """
    document = json.loads(text)
    parts: Mapping[str, str] = document["parts"]
    rules = tuple(_rule(one, parts) for one in document["rules"])
    return RuleSet(rules, digest(document), {form: _hints(form, rules) for form in FORMS})


def _hints(form: Form, rules: Sequence[Rule]) -> dict[str, tuple[int, ...]]:
    """Hint -> which rules to look at."""
    found: dict[str, tuple[int, ...]] = {}
    for index, rule in enumerate(rules):
        for hint in rule.hints.get(form, ()):
            found[hint] = (*found.get(hint, ()), index)
    return found


def _rule(data: Mapping[str, object], parts: Mapping[str, str]) -> Rule:
    def compiled(form: Form) -> tuple[re.Pattern[str], ...]:
        listed = data.get(form, [])
        if not isinstance(listed, list):
            raise TypeError(form)
        flags = re.IGNORECASE if form == "text" else 0
        return tuple(re.compile(_filled(str(one), parts), flags) for one in listed)

    hints = data["hints"]
    if not isinstance(hints, Mapping):
        raise TypeError(data["id"])
    return Rule(
        id=str(data["id"]),
        action=data["action"],  # type: ignore[arg-type]
        severity=data["severity"],  # type: ignore[arg-type]
        description=str(data["description"]),
        hints={form: tuple(map(str, hints.get(form, ()))) for form in FORMS},
        patterns={form: compiled(form) for form in FORMS},
        with_operator=data.get("with_operator"),  # type: ignore[arg-type]
    )


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    """`{NAME}` stands for a part that several patterns share."""
    return re.sub(r"\{([A-Z_]+)\}", lambda found: f"(?:{parts[found[1]]})", pattern)
