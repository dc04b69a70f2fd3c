"""Call numbers such as `QA 76.9 .S88 2004`: class, number, cutter, year."""

import re
from dataclasses import dataclass

from shelfmark.errors import MarkError

_MARK = re.compile(r"([A-Z]{1,3})\s*(\d+(?:\.\d+)?)(?:\s*\.([A-Z]\d+))?(?:\s+(\d{4}))?")


@dataclass(frozen=True)
class Mark:
    letters: str
    number: str
    cutter: str = ""
    year: int | None = None


def parse(text):
    match = _MARK.fullmatch(text.strip())
    if match is None:
        raise MarkError(f"not a call number: {text!r}")
    letters, number, cutter, year = match.groups()
    return Mark(letters, number, cutter or "", int(year) if year else None)
