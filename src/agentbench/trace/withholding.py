"""Withholds text from events: what people, models, agents and their programs wrote is replaced by its digest and length.

Kept are numbers, times, digests, codes, names that the harness, the task or the base repository gave, and the task's own commands:
enough to recompute the verdict, which never reads text. Names that an agent invents are text: of tools, hosts, and files that it
creates. A test fails for a text field of an event that is neither listed here nor known to be harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import TypeVar

from pydantic import BaseModel

from agentbench.core.canonical import canonical
from agentbench.trace.events import (
    AGENT_CALL,
    Excerpt,
    FileDigest,
    IntegrityFinding,
    ToolCallFinished,
    ToolCallStarted,
)
from agentbench.trace.json_safe import to_json, valid_utf8
from agentbench.trace.originals import withheld

M = TypeVar("M", bound=BaseModel)

TEXT: dict[str, frozenset[str]] = {
    "SetupCommandFinished": frozenset({"stdout", "stderr"}),
    "Briefing": frozenset({"text", "parts"}),
    "StageChanged": frozenset({"reason"}),
    "LlmRequest": frozenset({"parameters", "messages"}),
    "LlmResponse": frozenset({"content", "error"}),
    "ToolCallStarted": frozenset({"arguments"}),
    "ToolCallFinished": frozenset({"stdout", "stderr", "error_message"}),
    "ProcessStarted": frozenset({"program", "argv", "cwd"}),
    "WorkspaceMutated": frozenset({"diff"}),
    "PatchApplied": frozenset({"patch", "diff", "why"}),
    "Delegation": frozenset({"parent", "child", "role", "task"}),
    "NetworkRequest": frozenset({"method", "host", "target", "head", "why"}),
    "NetworkResponse": frozenset({"request_body", "head", "body", "error"}),
    "MonitorAlert": frozenset({"detail"}),
    "Intervention": frozenset({"detail"}),
    "Termination": frozenset({"rationale"}),
    "PatchExtracted": frozenset({"problem"}),
    "BuildFinished": frozenset({"stdout", "stderr", "why"}),
    "StaticFinished": frozenset({"stdout", "stderr", "why"}),
    "TestsFinished": frozenset({"stdout", "stderr", "why"}),
    "AcceptanceCheck": frozenset({"diagnostics", "why", "not_started"}),
    "IntegrityFinding": frozenset({"detail", "excerpt"}),
    "ScorerResult": frozenset({"detail"}),
    "JudgeFact": frozenset({"claim", "evidence"}),
    "JudgeResult": frozenset({"failure_mode", "reasoning"}),
}
"""Fields with text, by the class of the payload or of a part of it."""


TOOLS = frozenset({"list_files", "read_file", "search", "apply_patch", "run", "request_stage"})
"""Names of tools. Any other name of a call by the agent is its invention."""
FILE_NAMES = frozenset({
    "src", "lib", "test", "tests", "doc", "docs", "scripts", ".github", "workflows", ".circleci", ".gitlab-ci.yml",
    "Jenkinsfile", "Dockerfile", "Makefile", "tox.ini", "noxfile.py", "requirements.txt", "pyproject.toml",
    "setup.py", "setup.cfg", "package.json", "package-lock.json", "go.mod", "go.sum", "Cargo.toml", "pom.xml",
    "build.gradle", "conftest.py", "__init__.py", "__main__.py", "sitecustomize.py", "README.md", "README",
    "CHANGELOG.md",
})  # fmt: skip
"""Parts of paths that are conventions rather than inventions, among them those that make a patch need a review."""
FILE_SUFFIXES = frozenset({
    ".py", ".pyi", ".pyc", ".pth", ".so", ".txt", ".md", ".rst", ".json", ".yaml", ".yml", ".toml", ".cfg", ".ini",
    ".lock", ".sh", ".js", ".ts", ".go", ".rs", ".java", ".c", ".h", ".patch",
})  # fmt: skip


class TextWithholder:
    """Withholds the text of one attempt's events. It learns from them which files the base repository has."""

    def __init__(self) -> None:
        self._base: set[str] = set()
        self._created: set[str] = set()

    def withhold(self, value: M) -> M:
        """Return the payload without text. It is the same object if it has none."""
        listed = TEXT.get(type(value).__name__, frozenset())
        update: dict[str, object] = dict(self._names(value))
        for name in type(value).model_fields:
            inner = getattr(value, name)
            without = _without_text(inner) if name in listed else self._parts(inner)
            if without is not inner:
                update[name] = without
        return value.model_copy(update=update) if update else value

    def _parts(self, value: object) -> object:
        """Withhold the text of nested models."""
        if isinstance(value, BaseModel):
            return self.withhold(value)
        if isinstance(value, list) and any(isinstance(inner, BaseModel) for inner in value):
            return [self._parts(inner) for inner in value]
        if isinstance(value, dict) and any(isinstance(inner, BaseModel) for inner in value.values()):
            return {key: self._parts(inner) for key, inner in value.items()}
        return value

    def _names(self, value: BaseModel) -> Iterator[tuple[str, object]]:
        """Yield the fields with names that an agent invented, without these names."""
        match value:
            case ToolCallStarted(tool=tool, call_id=call) | ToolCallFinished(tool=tool, call_id=call):
                if tool not in TOOLS and call.startswith(AGENT_CALL):
                    yield "tool", withheld(valid_utf8(tool).encode())
                if isinstance(value, ToolCallFinished) and value.changed_files:
                    yield "changed_files", list(map(self._path, value.changed_files))
            case FileDigest():
                self._learn(value)
                yield "path", self._path(value.path)
                if value.old_path is not None:
                    yield "old_path", self._path(value.old_path)
            case IntegrityFinding(path=str(path)):
                yield "path", self._path(path)
            case _:
                pass

    def _learn(self, file: FileDigest) -> None:
        """Remember whether a file is of the base repository. A file that the agent created stays its own when it is changed."""
        before = file.path if file.old_path is None else file.old_path
        if file.before_sha256 is not None and before not in self._created:
            self._base.add(before)
        elif file.path not in self._base:
            self._created.add(file.path)

    def _path(self, path: str) -> str:
        if path in self._base:
            return path
        return "/".join(map(_path_part, path.split("/")))


def _path_part(part: str) -> str:
    if part in FILE_NAMES or not part:
        return part
    suffix = PurePosixPath(part).suffix
    return withheld(valid_utf8(part).encode()) + (suffix if suffix in FILE_SUFFIXES else "")


def _without_text(value: object) -> object:
    match value:
        case Excerpt(total_bytes=size) if size:
            return value.model_copy(update={"text": "", "encoding": "utf-8", "truncated": True, "blob": None})
        case str():
            return withheld(valid_utf8(value).encode())
        case list() if value:
            return [withheld(canonical(to_json(value)))]
        case dict() if value:
            return {"withheld": withheld(canonical(to_json(value)))}
        case _:
            return value
