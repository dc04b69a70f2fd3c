"""What all payloads are made of. Integers, strings, booleans, lists and objects, never floats: durations are integer microseconds
(`*_us`), so a digest does not hang on how a float is written. Text that may be large is an `Excerpt`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue

from agentbench.trace.json_safe import plain

Actor = Literal["agent", "harness", "monitor", "operator"]

AnyObject = Annotated[dict[str, JsonValue], BeforeValidator(plain)]
"""Whatever JSON a model or an agent came up with: bounded in depth, numbers that JSON cannot hold as text."""


class Payload(BaseModel):
    """Base of all payloads."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    type: ClassVar[str]


class Excerpt(BaseModel):
    """Bounded text with the digest of the whole. `encoding` is base64 when the bytes are not UTF-8."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    text: str = ""
    encoding: Literal["utf-8", "base64"] = "utf-8"
    total_bytes: int = 0
    sha256: str = ""
    truncated: bool = False
    blob: str | None = None


class FileDigest(BaseModel):
    """One changed file. Paths that are not UTF-8 are percent-encoded (`path_encoding`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str
    path_encoding: Literal["utf-8", "percent"] = "utf-8"
    change: Literal["added", "modified", "deleted", "renamed", "mode"]
    before_sha256: str | None = None
    after_sha256: str | None = None
    before_mode: str | None = None
    after_mode: str | None = None
    size: int = 0
    binary: bool = False
    generated: bool = False
    old_path: str | None = None
