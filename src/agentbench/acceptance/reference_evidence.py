"""Results about the reference that decide a grading: its decoy plans, and the files that the reference reads.

A grading collects what it used. The attempt keeps that in a file that only its owner can read, because it says which tests are
decoys. A replay gets it back, so that it grades with the same decoys and does not need the reference itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict

from agentbench.acceptance.cache import load_or_make
from agentbench.core.canonical import digest
from agentbench.core.errors import InputError

PLAN = "DecoyPlan"
"""Name of the results that are decoy plans."""

M = TypeVar("M", bound=BaseModel)


class RecordedResult(BaseModel):
    """One result, and the version of the code that made it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    version: int
    value: dict[str, Any]


class RecordedEvidence(BaseModel):
    """The file that an attempt keeps."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    schema_version: int = 1
    reference_sha256: str | None
    results: dict[str, RecordedResult]
    """By `CHECK/KIND`."""


class ReferenceEvidence:
    """The results that a grading uses: recorded ones in a replay, else those of the cache."""

    def __init__(self, recorded: RecordedEvidence | None = None) -> None:
        self._recorded: Mapping[str, RecordedResult] = recorded.results if recorded else {}
        self._used: dict[str, RecordedResult] = {}

    def is_recorded(self, check_id: str, kind: type[BaseModel]) -> bool:
        return f"{check_id}/{kind.__name__}" in self._recorded

    def result(
        self, cache: Path, check_id: str, key: str, kind: type[M], make: Callable[[], M], *, version: int = 1
    ) -> M:
        """Return the recorded result of a check, or that of the cache, made now if it has none.

        Raises:
            InputError: the recorded result was made by another version.
            WorkspaceError: the cache folder cannot be used.
        """
        name = f"{check_id}/{kind.__name__}"
        recorded = self._recorded.get(name)
        if recorded is None:
            result = load_or_make(cache, key, kind, make)[0]
        elif recorded.version == version:
            result = kind.model_validate(recorded.value)
        else:
            msg = f"the {kind.__name__} of check {check_id} was recorded in version {recorded.version}, supported is {version}"
            raise InputError(msg, remedy="replay with the version of agentbench-harness that recorded the run")
        self._used[name] = RecordedResult(version=version, value=json.loads(result.model_dump_json()))
        return result

    def plan_digest(self, check_id: str) -> str:
        """Return the digest of the check's decoy plan; empty if none was used. The plan's random seed keeps it from being guessed."""
        plan = self._used.get(f"{check_id}/{PLAN}")
        return digest(plan.value) if plan else ""

    def to_record(self, reference_sha256: str | None) -> bytes:
        """Return what the attempt keeps; empty if nothing was used."""
        if not self._used:
            return b""
        recorded = RecordedEvidence(reference_sha256=reference_sha256, results=self._used)
        return json.dumps(recorded.model_dump(), sort_keys=True).encode()
