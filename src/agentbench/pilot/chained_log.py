"""The append-only logs of a pilot: decisions and removals.

Each line contains the digest of the line before it, so an edited or removed line is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from agentbench.core.canonical import CanonicalError, Json, canonical, parse_canonical, sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError, RecordError
from agentbench.record.durable import append_line, drop_torn_line


@dataclass(frozen=True, slots=True)
class ChainedLog:
    """A JSONL file that is only appended to."""

    path: Path

    def append(self, value: Mapping[str, Json]) -> None:
        """Append one entry.

        Raises:
            InputError: an earlier line was altered.
            RecordError: the file cannot be written.
        """
        drop_torn_line(self.path)
        *_, previous = ("", *(digest for digest, _ in self._lines()))
        append_line(self.path, canonical({**value, "previous": previous}))

    def entries(self) -> list[Mapping[str, Json]]:
        """Read all entries. An incomplete last line, left by a process that died, is ignored.

        Raises:
            InputError: a line was altered or removed; names the line.
        """
        return [value for _, value in self._lines()]

    def _lines(self) -> Iterator[tuple[str, Mapping[str, Json]]]:
        previous = ""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise RecordError.of("read", self.path, error) from error
        for number, line in enumerate(data.split(b"\n")[:-1], start=1):
            try:
                value = parse_canonical(line)
            except CanonicalError as error:
                raise InputError(f"{self.path}:{number}: {error}", remedy=_RESTORE) from None
            if not isinstance(value, Mapping) or value.get("previous") != previous:
                msg = f"{self.path}:{number}: the line or one before it was altered or removed"
                raise InputError(msg, remedy=_RESTORE)
            previous = sha256_hex(line)
            yield previous, value


_RESTORE = "restore the file; `ab verify` lists everything that was altered"
