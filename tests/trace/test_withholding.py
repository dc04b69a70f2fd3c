from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from pydantic import BaseModel

from agentbench.core.canonical import sha256_hex
from agentbench.tools.registry import TOOLS as REGISTRY
from agentbench.trace.events import (
    ATTEMPT_EVENTS,
    EVENT_TYPES,
    Excerpt,
    FileDigest,
    GateResult,
    IntegrityFinding,
    JudgeFact,
    LlmRequest,
    Payload,
    ToolCallFinished,
    ToolCallStarted,
    WorkspaceMutated,
)
from agentbench.trace.log import EventLog, read_events
from agentbench.trace.originals import Discarded
from agentbench.trace.withholding import FILE_NAMES, TEXT, TOOLS, TextWithholder
from agentbench.verdict.terms import published_rubric
from tests.trace.samples import EXAMPLES

pytestmark = [pytest.mark.req("E-03"), pytest.mark.component]

HARMLESS = {
    # Ids, digests, versions, times and names that the harness or the task gives.
    *("attempt_id", "run_id", "study_id", "task_id", "contract_id", "task_digest", "harness_version", "config_class"),
    *(
        "nonce",
        "supersedes",
        "suite",
        "variant",
        "agent",
        "started_at",
        "snapshot",
        "source",
        "base_tree",
        "env_digest",
    ),
    *("backend", "image", "manifest_sha256", "sha256", "exact_sha256", "request_id", "provider", "model", "call_id"),
    *("monitor", "rule", "operator", "sandbox", "address", "sent_sha256", "received_sha256"),
    *("step", "check_id", "layer", "assurance", "stdout_sha256", "stderr_sha256", "decoy_plan", "name", "scorer_type"),
    *("scored_at", "rubric", "expected_outcome", "verdicts", "verdict", "ended_at", "head", "record_sha256", "phase"),
    *(
        "run_json_sha256",
        "task_dir",
        "files_sha256",
        "resumed_at",
        "unfinished",
        "approved_by",
        "reduced_at",
        "closed_at",
    ),
    *("before_sha256", "after_sha256", "before_mode", "after_mode", "who", "at", "place"),
    # Codes of the harness.
    *("status", "stage", "before", "after", "cause", "error_type", "not_observed", "tool"),
    # Names of files and tests, commands of the task.
    *("path", "old_path", "changed_files", "failing_tests", "command"),
    # What a person decided, and numbers by name.
    *("justification", "signals", "denied_calls", "scores"),
}
"""Fields that stay as they are."""
HARMLESS_HERE = {
    ("SandboxLost", "why"),
    ("GateResult", "why"),  # made from events whose text is withheld
    ("Excerpt", "text"),
    ("Excerpt", "blob"),
}


def text_fields() -> Iterator[tuple[str, str]]:
    """Yield the fields of an attempt's events, and of their parts, that can hold text."""
    models: list[type[BaseModel]] = [*ATTEMPT_EVENTS, Excerpt, FileDigest, GateResult, JudgeFact]
    for model in models:
        for name, field in model.model_fields.items():
            if re.search(r"\b(str|Excerpt|JsonValue)\b", str(field.annotation)):
                yield model.__name__, name


def test_every_text_field_is_withheld_or_known_to_be_harmless() -> None:
    unlisted = {(model, name) for model, name in text_fields() if name not in HARMLESS | TEXT.get(model, frozenset())}
    assert unlisted == HARMLESS_HERE


def test_listed_fields_exist() -> None:
    models: dict[str, type[BaseModel]] = {model.__name__: model for model in EVENT_TYPES.values()}
    models["JudgeFact"] = JudgeFact
    assert all(fields <= set(models[name].model_fields) for name, fields in TEXT.items())


@pytest.mark.parametrize("payload", EXAMPLES, ids=lambda payload: str(payload.type))
def test_payload_without_text_is_still_valid(payload: Payload) -> None:
    without = TextWithholder().withhold(payload)
    assert type(payload).model_validate(without.model_dump(mode="json")) == without


def test_digest_and_length_of_withheld_text_stay() -> None:
    messages = Excerpt(text="Fix the bug.", total_bytes=12, sha256="a" * 64, blob="b" * 64)
    request = LlmRequest(
        request_id="m1", provider="p", model="m", parameters={"stop": "x"}, messages=messages, conversation_index=0
    )
    without = TextWithholder().withhold(request)
    assert without.messages == Excerpt(text="", total_bytes=12, sha256="a" * 64, truncated=True)
    digest = sha256_hex(b'{"stop":"x"}')
    assert without.parameters == {"withheld": f"[withheld: 12 bytes, sha256:{digest}]"}
    assert (without.request_id, without.conversation_index) == ("m1", 0)


def test_listeners_see_the_text_that_the_log_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    seen: list[Payload] = []
    with EventLog.create(path, originals=Discarded()) as log:
        log.listen(seen.append)
        for payload in EXAMPLES:
            log.append(payload)
    assert seen == list(EXAMPLES)
    withholder = TextWithholder()
    assert [event.payload for event in read_events(path)] == [withholder.withhold(payload) for payload in EXAMPLES]
    assert b"fix it" not in path.read_bytes()


def shown_paths(*files: FileDigest, withholder: TextWithholder | None = None) -> list[str]:
    payload = WorkspaceMutated(call_id="c1", files=list(files), diff=Excerpt())
    return [file.path for file in (withholder or TextWithholder()).withhold(payload).files]


def test_names_that_the_agent_invents_are_withheld() -> None:
    invented = f"[withheld: 8 bytes, sha256:{sha256_hex(b'invented')}]"
    started = ToolCallStarted(call_id="c1", tool="invented", arguments={})
    assert TextWithholder().withhold(started).tool == invented
    assert set(REGISTRY) == TOOLS
    for call_id, tool in (("c1", "run"), ("h1", "cli_invented")):
        assert TextWithholder().withhold(ToolCallStarted(call_id=call_id, tool=tool, arguments={})).tool == tool

    withholder = TextWithholder()
    base = FileDigest(path="app/core.py", change="modified", before_sha256="a" * 64, after_sha256="b" * 64)
    added = FileDigest(path="tests/invented", change="added", after_sha256="b" * 64)
    assert shown_paths(base, added, withholder=withholder) == ["app/core.py", f"tests/{invented}"]
    # A file that the agent created stays its own when it is changed later; one of the repository that was deleted does not.
    changed = added.model_copy(update={"change": "modified", "before_sha256": "b" * 64})
    restored = base.model_copy(update={"change": "added", "before_sha256": None})
    assert shown_paths(changed, restored, withholder=withholder) == [f"tests/{invented}", "app/core.py"]
    renamed = base.model_copy(update={"change": "renamed", "path": "invented", "old_path": "app/core.py"})
    assert shown_paths(renamed, withholder=withholder) == [invented]
    finding = IntegrityFinding(rule="compiled_file", severity="note", path="invented", detail="")
    assert withholder.withhold(finding).path == invented
    finished = ToolCallFinished(
        call_id="c1", tool="run", ok=True, duration_us=1, changed_files=["app/core.py", "invented"]
    )
    assert withholder.withhold(finished).changed_files == ["app/core.py", invented]


def test_new_files_that_need_a_review_are_still_recognised() -> None:
    names = [*FILE_NAMES, ".github/workflows/invented.yml", "invented.lock", "invented.pth", "deep/invented/setup.py"]
    new = [FileDigest(path=name, change="added", after_sha256="a" * 64) for name in names]

    def sensitive(paths: list[str]) -> list[bool]:
        return [any(fnmatchcase(path, glob) for glob in published_rubric().review_paths) for path in paths]

    assert sensitive(shown_paths(*new)) == sensitive(names)
