"""What a test run says, in few words: the tests that failed, where, and which files it names."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FAILED = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+\.py\b.*?)(?: - (?P<why>.*))?$", re.MULTILINE)
_PLACE = re.compile(r"(?P<path>(?:[\w.-]+/)*[\w.-]+\.py)[:\"](?:, line )?(?P<line>\d+)?")
_SHOWN_TESTS = 20
_SHOWN_CHARS = 6000


@dataclass(frozen=True, slots=True)
class Failures:
    """Of one test run. `files` are the paths its output names, in the order of their first mention."""

    tests: tuple[str, ...]
    files: tuple[str, ...]
    text: str

    @property
    def signature(self) -> tuple[str, ...]:
        """Equal for two runs that failed in the same way."""
        return tuple(sorted(self.tests)) or (self.text[-500:],)


def read_failures(output: str) -> Failures:
    """Read the output of a test run; what is not pytest's is still searched for file names."""
    tests = tuple(dict.fromkeys(found["test"] for found in _FAILED.finditer(output)))
    named = (found["path"] for found in _PLACE.finditer(output))
    files = tuple(dict.fromkeys(path for path in named if "site-packages" not in path))
    return Failures(tests, files, _short(output, tests))


def _short(output: str, tests: tuple[str, ...]) -> str:
    """The names of the failing tests, and the end of the output, where the reasons are."""
    head = ""
    if tests:
        more = len(tests) - _SHOWN_TESTS
        head = (
            "Failing tests:\n" + "\n".join(tests[:_SHOWN_TESTS]) + (f"\n… and {more} more" if more > 0 else "") + "\n\n"
        )
    cut = output[-_SHOWN_CHARS:]
    return head + ("[…]\n" if len(cut) < len(output) else "") + cut
