"""Read a log of Inspect AI: `.eval` (one sample at a time) or `.json`.

The first score of the log decides: C and 1 are a pass, other values a fail. A sample with an error or without a score has no decision.
A log that AgentBench wrote has the verdict of each attempt as metadata, which is kept unless the score is another one.
"""

from __future__ import annotations

import io
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from agentbench.core.canonical import Json, digest
from agentbench.core.errors import InputError
from agentbench.exchange.attempt_trace import RequestedCall, TraceMessage
from agentbench.exchange.exported_attempt import exported_attempt
from agentbench.exchange.foreign_json import (
    MAX_BYTES,
    count,
    member,
    number,
    parse_object,
    read_json_file,
    real,
    text,
    time_or,
)
from agentbench.exchange.imported_result import Decision, ImportedAttempt, ImportedLog, stated_cost
from agentbench.record.schema import Usage
from agentbench.trace.json_safe import to_json

NO_MODEL = "none/none"
ZSTANDARD = 93
"""Number of the compression method in zip files."""
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
"""Header before the data of each member; the last two numbers are the lengths of its name and extra fields."""
ATTACHMENT = "attachment://"
EPOCH = "1970-01-01T00:00:00.000+00:00"
MAX_RATIO = 1000
"""Members and attachments may not expand to more than this times the size of the log, plus `FREE_BYTES`."""
FREE_BYTES = 64 * 1024**2
_UNREADABLE = (
    OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError, NotImplementedError, RuntimeError,
)  # fmt: skip
_ROLES = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


class _Expansion:
    """Limits what a log expands to: its compressed members, and attachments, which messages may name any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._limit = self._left = FREE_BYTES + MAX_RATIO * path.stat().st_size

    def take(self, size: int) -> None:
        """
        Raises:
            InputError: the log expands too far.
        """
        self._left -= size
        if self._left < 0:
            raise InputError(f"{self._path} expands to more than {self._limit} bytes")


def detects(path: Path) -> bool:
    if not path.is_file():
        return False
    if path.suffix.lower() == ".eval":
        return zipfile.is_zipfile(path)
    if path.suffix.lower() != ".json":
        return False
    with path.open("rb") as file:
        head = file.read(4096)
    return b'"version"' in head and b'"eval"' in head


def read(path: Path) -> ImportedLog:
    """Read the header; samples follow one at a time."""
    samples: Callable[[_Expansion], Iterator[Mapping[str, Json]]]
    if path.is_file() and zipfile.is_zipfile(path):
        header, samples = _read_eval_header(path), partial(_eval_samples, path)
    else:
        header = read_json_file(path)
        samples = partial(_listed_samples, path, header.pop("samples", None))
    spec = member(header, "eval")
    if not isinstance(spec, dict):
        raise InputError(f"{path}: not an Inspect log: it has no 'eval'")
    full_name = text(spec.get("model"), NO_MODEL)
    provider, _, name = full_name.partition("/")
    known = full_name != NO_MODEL
    decider = _deciding_score(header)
    return ImportedLog(
        format="inspect",
        tool=_tool(member(spec, "packages")),
        suite=text(spec.get("task"), "inspect"),
        agent=text(spec.get("solver")) or _planned_solvers(header) or "inspect",
        model=(name or provider) if known else None,
        provider=provider if known and name else None,
        attempts=lambda: _attempts(path, samples, spec, decider),
        method=text(member(spec, "metadata", "agentbench", "variant")),
        meta={
            "eval_id": text(spec.get("eval_id")),
            "created": text(spec.get("created")),
            "status": text(header.get("status")),
        },
    )


def _attempts(
    path: Path,
    samples: Callable[[_Expansion], Iterator[Mapping[str, Json]]],
    spec: Mapping[str, Json],
    decider: str | None,
) -> Iterator[ImportedAttempt]:
    expansion = _Expansion(path)
    for sample in samples(expansion):
        yield _attempt(sample, spec, decider, expansion)


def _planned_solvers(header: Mapping[str, Json]) -> str:
    """Return the solvers of a task that was run with its own, whose log names none in `eval`."""
    steps = member(header, "plan", "steps")
    names = [text(member(step, "solver")) for step in steps] if isinstance(steps, list) else []
    return " + ".join(filter(None, names))


# --- the two forms ----------------------------------------------------------------------------------------------------


def _read_eval_header(path: Path) -> dict[str, Json]:
    with _archive(path) as archive:
        names = set(archive.namelist())
        name = next((name for name in ("header.json", "_journal/start.json") if name in names), None)
        if name is None:
            raise InputError(f"{path}: not an Inspect log: it has no header.json")
        return _member_json(archive, name, path, _Expansion(path))


def _eval_samples(path: Path, expansion: _Expansion) -> Iterator[Mapping[str, Json]]:
    with _archive(path) as archive:
        # A retried sample is appended under the same name; the last one counts.
        for name in dict.fromkeys(archive.namelist()):
            if name.startswith("samples/") and name.endswith(".json"):
                yield _member_json(archive, name, path, expansion)


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def _member_json(archive: zipfile.ZipFile, name: str, path: Path, expansion: _Expansion) -> dict[str, Json]:
    try:
        with _opened_member(archive, archive.getinfo(name), path) as file:
            data = file.read(MAX_BYTES + 1)
    except _UNREADABLE as error:
        raise InputError(f"{path}: cannot read {name}: {error}") from None
    expansion.take(len(data))
    return parse_object(data, f"{path}: {name}")


@contextmanager
def _opened_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> Iterator[BinaryIO]:
    """Open a member. Inspect compresses with Zstandard, which zipfile cannot read before Python 3.14."""
    if info.compress_type != ZSTANDARD:
        with archive.open(info) as member_file:
            yield cast("BinaryIO", member_file)
        return
    with path.open("rb") as file:
        file.seek(info.header_offset)
        header = file.read(LOCAL_HEADER.size)
        if len(header) < LOCAL_HEADER.size or not header.startswith(b"PK\x03\x04"):
            raise zipfile.BadZipFile("the local header is damaged")
        name_length, extra_length = LOCAL_HEADER.unpack(header)[-2:]
        file.seek(name_length + extra_length, io.SEEK_CUR)
        with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=False) as reader:
            yield reader


def _listed_samples(path: Path, samples: Json, _expansion: _Expansion) -> Iterator[Mapping[str, Json]]:
    if not isinstance(samples, list):
        raise InputError(f"{path}: the log has no samples")
    for number_, sample in enumerate(samples):
        if not isinstance(sample, dict):
            raise InputError(f"{path}: samples[{number_}]: expected an object")
        yield sample


# --- one sample -------------------------------------------------------------------------------------------------------


def _deciding_score(header: Mapping[str, Json]) -> str | None:
    """Return the name of the score that the log's first metric is about."""
    scores = member(header, "results", "scores")
    first = scores[0] if isinstance(scores, list) and scores else None
    name = member(first, "name")
    return None if name is None else str(name)


def _tool(packages: Json) -> str:
    """Return the package that wrote the log, with its version."""
    known = packages if isinstance(packages, dict) else {}
    name = "inspect_ai" if "inspect_ai" in known else next(iter(known), "inspect_ai")
    return f"{name} {text(known.get(name), '(unknown version)')}"


def _attempt(
    sample: Mapping[str, Json], spec: Mapping[str, Json], decider: str | None, expansion: _Expansion
) -> ImportedAttempt:
    decision, why = _decision(sample, decider)
    known = member(sample, "metadata")
    exported = exported_attempt(member(known, "agentbench"))
    # A log that was scored again has another verdict than the one AgentBench exported.
    if exported and {1: "pass", 0: "fail"}.get(exported.contract, "error") != decision:  # type: ignore[arg-type]
        exported = None
    started = time_or(sample.get("started_at"), time_or(spec.get("created"), EPOCH))
    identity = [text(spec.get("task")), sample.get("id"), sample.get("input"), sample.get("target")]
    usage, cost = _usage(sample.get("model_usage"))
    return ImportedAttempt(
        task=text(sample.get("id"), "sample"),
        repeat=max(1, count(sample.get("epoch"))),
        decision=decision,
        why=why,
        identity=digest(to_json(identity)),
        started_at=started,
        ended_at=time_or(sample.get("completed_at"), started),
        duration_sec=number(sample.get("total_time")),
        usage=usage,
        cost=stated_cost(member(known, "agentbench", "cost"), cost),
        scores={name: _shown(value) for name, value in _values(sample).items()},
        messages=tuple(_messages(sample, expansion)),
        exported=exported,
        original={
            "uuid": sample.get("uuid"),
            "target": sample.get("target"),
            "scores": sample.get("scores"),
            "error": member(sample, "error", "message"),
            "limit": sample.get("limit"),
            "metadata": known,
        },
    )


def _values(sample: Mapping[str, Json]) -> dict[str, Json]:
    scores = sample.get("scores")
    return {str(name): member(score, "value") for name, score in scores.items()} if isinstance(scores, dict) else {}


def _decision(sample: Mapping[str, Json], decider: str | None) -> tuple[Decision, str]:
    if sample.get("error"):
        return "error", text(member(sample, "error", "message"), "error")
    values = _values(sample)
    name = decider if decider in values else next(iter(values), None)
    if name is None:
        return "undecided", "the sample has no score"
    value = values[name]
    shown = f"{name} = {_shown(value)}"
    as_number = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}.get(value) if isinstance(value, str) else real(value)
    if as_number is None:
        return "undecided", f"{shown} is neither a pass nor a fail"
    return ("pass", shown) if as_number == 1 else ("fail", f"{shown} (a pass is C or 1)")


def _shown(value: Json) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)[:200]


def _usage(by_model: Json) -> tuple[Usage, float | None]:
    """Add up the usage of all models. The cost is None unless it is stated for each of them."""
    prompt = completion = cached = 0
    costs: list[float | None] = []
    for usage in by_model.values() if isinstance(by_model, dict) else ():
        read, written = (count(member(usage, f"input_tokens_cache_{kind}")) for kind in ("read", "write"))
        prompt += count(member(usage, "input_tokens")) + read + written
        completion += count(member(usage, "output_tokens"))
        cached += read
        costs.append(real(member(usage, "total_cost")))
    stated = [cost for cost in costs if cost is not None]
    cost = math.fsum(stated) if stated and len(stated) == len(costs) else None
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached), cost


class _Attachments:
    """The texts that messages of a sample name instead of repeating them."""

    def __init__(self, texts: Json, expansion: _Expansion) -> None:
        self._texts = texts if isinstance(texts, dict) else {}
        self._expansion = expansion

    def resolved(self, content: str) -> str:
        if not content.startswith(ATTACHMENT):
            return content
        found = text(self._texts.get(content.removeprefix(ATTACHMENT)), content)
        self._expansion.take(len(found))
        return found


def _messages(sample: Mapping[str, Json], expansion: _Expansion) -> Iterator[TraceMessage]:
    known = _Attachments(sample.get("attachments"), expansion)
    listed = sample.get("messages")
    position = 0
    for message in listed if isinstance(listed, list) else ():
        role = _ROLES.get(text(member(message, "role")))
        if role is None:
            continue
        answers = member(message, "tool_call_id")
        yield TraceMessage(
            role=role,  # type: ignore[arg-type]
            text=_content(member(message, "content"), known),
            parent=position - 1 if position else None,
            calls=tuple(_calls(member(message, "tool_calls"))),
            answers=None if answers is None else str(answers),
        )
        position += 1


def _content(content: Json, attachments: _Attachments) -> str:
    if isinstance(content, list):
        return "\n".join(_part(part, attachments) for part in content)
    return attachments.resolved(text(content))


def _part(part: Json, attachments: _Attachments) -> str:
    kind = text(member(part, "type"))
    if kind in {"text", "reasoning"}:
        return attachments.resolved(text(member(part, kind)))
    return f"[{kind or 'content'} is not imported]"


def _calls(calls: Json) -> Iterator[RequestedCall]:
    for call in calls if isinstance(calls, list) else ():
        arguments = member(call, "arguments")
        failed = member(call, "parse_error")
        yield RequestedCall(
            id=text(member(call, "id")),
            name=text(member(call, "function")),
            arguments=arguments if isinstance(arguments, dict) else {},
            malformed=None if failed is None else str(failed),
        )
