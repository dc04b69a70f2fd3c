"""Reading JUnit reports of any language. The file was written by the code under test: hostile input.

A test's id is `classname::name`, or `name` alone where there is no class name; both byte for byte as the report has
them. A report that declares a document type or entities, nests too deeply or lists too much is refused.
"""

from __future__ import annotations

from xml.parsers import expat

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 64
MAX_TESTS = 1_000_000
MAX_WORDS = 1000
"""Characters of why a test failed."""
NOT_RUN = frozenset({"notrun", "disabled", "skipped"})
"""What writers say of a test in its `status` when they have no element for it, as googletest does."""
_RANK = {"failed": 0, "skipped": 1, "passed": 2}


class ReportRefused(ValueError):
    """The report cannot be read; the text says why."""


class _Reader:
    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.whys: dict[str, str] = {}
        self._depth = 0
        self._test: str | None = None
        self._test_depth = 0
        self._outcome = "passed"
        self._told = ""
        self._telling = 0
        """How deep the element is whose text says why; 0 outside of one."""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ReportRefused("is nested too deeply")
        tag = name.rpartition(":")[2]
        if tag == "testcase" and self._test is None:
            owner = attributes.get("classname", "")
            title = attributes.get("name", "")
            self._test = f"{owner}::{title}" if owner else title
            self._test_depth = self._depth
            self._outcome = "skipped" if attributes.get("status", "") in NOT_RUN else "passed"
        elif self._test is not None and tag in {"failure", "error"}:
            self._outcome = "failed"
            if self._test not in self.whys:
                self.whys[self._test] = attributes.get("message", "")[:MAX_WORDS]
                self._told, self._telling = "", self._depth
        elif self._test is not None and tag == "skipped" and self._outcome == "passed":
            self._outcome = "skipped"

    def text(self, text: str) -> None:
        """Some writers have a message, others only text, and some a message that says no more than that it failed."""
        if self._telling and len(self._told) < MAX_WORDS:
            self._told += text[:MAX_WORDS]

    def end(self, _name: str) -> None:
        if self._test is not None and self._depth == self._telling:
            message, told = self.whys[self._test].strip(), self._told.strip()
            said = told if message in told else f"{message}\n{told}".strip()
            # Further lines stand to the right: they are of this test and of no other.
            self.whys[self._test] = "\n    ".join(said[:MAX_WORDS].splitlines())
            self._telling = 0
        if self._test is not None and self._depth == self._test_depth:
            self._keep(self._test)
            self._test = None
        self._depth -= 1

    def _keep(self, test: str) -> None:
        if len(self.outcomes) >= MAX_TESTS:
            raise ReportRefused(f"lists more than {MAX_TESTS} tests")
        self.outcomes[test] = worse(self.outcomes.get(test), self._outcome)

    def refuse(self, *_: object) -> None:
        raise ReportRefused("declares a document type")


def worse(one: str | None, other: str) -> str:
    """Of tests that have one name, as in two suites whose names the writer leaves out, the worst counts."""
    return other if one is None else min(one, other, key=_RANK.__getitem__)


def read_report(data: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """Outcome by test id, and the message of each failure.

    Raises:
        ReportRefused: not XML, or not the kind of XML we read.
    """
    if len(data) > MAX_BYTES:
        raise ReportRefused(f"is larger than {MAX_BYTES} bytes")
    reader = _Reader()
    parser = expat.ParserCreate()
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.EntityDeclHandler = reader.refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ReportRefused(f"is not well-formed: {error}") from None
    except ReportRefused:
        raise
    except (LookupError, ValueError) as error:  # its encoding is one that nobody knows, or that expat cannot take
        raise ReportRefused(f"cannot be decoded: {error}") from None
    return reader.outcomes, reader.whys
