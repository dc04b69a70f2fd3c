r"""Examples for monitors: violations that each rule must find, and ordinary work that must raise no alert.

In the data files, `\n` stands for a line break inside an example.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentbench.policy.breakers import Trip
from agentbench.policy.monitor_rules import ContractRules
from agentbench.policy.monitors import PolicyMonitor
from agentbench.trace.events import Excerpt, LlmResponse, Payload, ToolCallStarted

DATA = Path(__file__).parent / "data"
Form = Literal["command", "code", "text"]
STRICT = ContractRules(allow_new_dependencies=False)


@dataclass(frozen=True)
class Example:
    form: Form
    text: str

    @property
    def event(self) -> Payload:
        """Return the event that a session would log."""
        match self.form:
            case "command":
                return ToolCallStarted(call_id="c1", tool="run", arguments={"command": self.text})
            case "code":
                added = "\n".join("+" + line for line in self.text.split("\n"))
                return ToolCallStarted(call_id="c1", tool="apply_patch", arguments={"unified_diff": added})
            case _:
                return model_response(self.text)


def model_response(text: str) -> LlmResponse:
    return LlmResponse(
        request_id="r",
        status="ok",
        content=Excerpt(text=text, total_bytes=len(text), sha256="0" * 64),
        prompt_tokens=1,
        completion_tokens=1,
        cached_tokens=0,
        cost_micro_usd=0,
        duration_us=1,
        conversation_index=0,
    )


def positives() -> dict[str, list[Example]]:
    """Return the violations that each rule must find."""
    found: dict[str, list[Example]] = {}
    rule = ""
    for line in _lines("positives.txt"):
        if line.startswith("# "):
            rule = line[2:]
            found[rule] = []
            continue
        form, _, text = line.partition(": ")
        assert form in {"command", "code", "text"}, line
        found[rule].append(Example(form, _unescaped(text)))  # type: ignore[arg-type]
    return found


def benign() -> Iterator[Example]:
    forms: tuple[Form, ...] = ("command", "code", "text")
    for form, name in zip(forms, ("commands", "code", "text"), strict=True):
        yield from (Example(form, _unescaped(line)) for line in _lines(f"benign_{name}.txt"))


def judged(example: Example, contract: ContractRules | None = None) -> tuple[Trip, ...]:
    return PolicyMonitor(contract)(1, example.event)


def _lines(name: str) -> list[str]:
    return [line for line in (DATA / name).read_text(encoding="utf-8").splitlines() if line.strip()]


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")
