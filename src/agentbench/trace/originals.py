"""Originals of text that the evidence does not contain: redacted secrets, and all text of a run that keeps digests only.

An attempt names each original by its place. Logs and blobs pass originals to an `OriginalsWriter`, a restricted store or one that
discards them, so that they know nothing about keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass

EvidenceText = Literal["full", "redacted", "digest"]
"""The text of a run's evidence. `full`: only keys and declared secrets are redacted. `redacted`: also the secrets of the base
repository. `digest`: all text is replaced by its digest and length."""


@dataclass(frozen=True, slots=True)
class KeptOriginal:
    """The entry of an original in the evidence: a digest of a random salt and the text, and the length of the text."""

    sha256: str
    bytes: int


class OriginalsWriter(Protocol):
    """Stores the originals of one attempt. May be called from any thread."""

    @property
    def withhold(self) -> bool:
        """Whether all text is withheld from the evidence, rather than only secrets."""
        ...

    def keep(self, place: str, original: bytes) -> None:
        """Keep the original of a place; the last one counts.

        Raises:
            RecordError: it cannot be written.
        """
        ...

    def kept(self) -> Mapping[str, KeptOriginal]:
        """Return what was kept of this attempt, by place."""
        ...

    def sync(self) -> None:
        """Make all originals kept so far survive a loss of power.

        Raises:
            RecordError: they cannot be synced.
        """
        ...


@dataclass(frozen=True, slots=True)
class Discarded:
    """Withholds all text and keeps none of it."""

    withhold: bool = True

    def keep(self, place: str, original: bytes) -> None:
        pass

    def kept(self) -> Mapping[str, KeptOriginal]:
        return {}

    def sync(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class EvidenceTerms:
    """The treatment of text by the attempts of a run."""

    text: EvidenceText = "redacted"
    originals: Callable[[str], OriginalsWriter | None] = lambda _attempt_id: None
    """Returns the writer of an attempt's originals; None if nothing is withheld and nothing kept."""


def of_event(seq: int) -> str:
    """Return the place of an event's payload."""
    return f"event:{seq}"


def of_output(sha256: str) -> str:
    """Return the place of an output, which events name by its digest (`Excerpt.sha256`)."""
    return f"output:{sha256}"


def of_file(name: str) -> str:
    """Return the place of a file in the attempt's folder."""
    return f"file:{name}"


def withheld(text: bytes) -> str:
    """Return the text that stands for withheld text."""
    return f"[withheld: {len(text)} bytes, sha256:{sha256_hex(text)}]" if text else ""
