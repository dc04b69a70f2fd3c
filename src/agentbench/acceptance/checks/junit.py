"""Read JUnit reports of any language. The code under test wrote them: hostile input.

A test's id is `classname::name`, or `name` if there is no class name, exactly as in the report. A report that declares
a document type or entities, is nested too deeply or lists too many tests is refused.
"""

from __future__ import annotations

from xml.parsers import expat

MAX_BYTES = 32 * 1024 * 1024
MAX_DEPTH = 64
MAX_TESTS = 1_000_000
"""Tests of all reports of a check together: every one is kept in memory."""
MAX_MESSAGE = 1000
"""Characters of a failure message."""
NOT_RUN = frozenset({"notrun", "disabled", "skipped"})
"""Values of `status` for tests that did not run, from writers without an element for it, such as googletest."""
_RANK = {"failed": 0, "skipped": 1, "passed": 2}


class ReportRefused(ValueError):
    """The report cannot be used; the text says why."""


class _Reader:
    def __init__(self, max_tests: int) -> None:
        self._max_tests = max_tests
        self.outcomes: dict[str, str] = {}
        self.whys: dict[str, str] = {}
        self._depth = 0
        self._test: str | None = None
        self._test_depth = 0
        self._outcome = "passed"
        self._text = ""
        self._text_depth = 0
        """Depth of the failure element whose text is being read; 0 outside one."""

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
                self.whys[self._test] = attributes.get("message", "")[:MAX_MESSAGE]
                self._text, self._text_depth = "", self._depth
        elif self._test is not None and tag == "skipped" and self._outcome == "passed":
            self._outcome = "skipped"

    def text(self, text: str) -> None:
        """Collect the text of a failure: some writers give no message, or one that only says that the test failed."""
        if self._text_depth and len(self._text) < MAX_MESSAGE:
            self._text += text[:MAX_MESSAGE]

    def end(self, _name: str) -> None:
        if self._test is not None and self._depth == self._text_depth:
            message, text = self.whys[self._test].strip(), self._text.strip()
            why = text if message in text else f"{message}\n{text}".strip()
            # Further lines are indented, so that they are seen to belong to this test.
            self.whys[self._test] = "\n    ".join(why[:MAX_MESSAGE].splitlines())
            self._text_depth = 0
        if self._test is not None and self._depth == self._test_depth:
            self._keep(self._test)
            self._test = None
        self._depth -= 1

    def _keep(self, test: str) -> None:
        if len(self.outcomes) >= self._max_tests:
            raise ReportRefused(f"lists more tests than the limit of {MAX_TESTS} for all reports leaves")
        self.outcomes[test] = worse_outcome(self.outcomes.get(test), self._outcome)

    def refuse(self, *_: object) -> None:
        raise ReportRefused("declares a document type")


def worse_outcome(first: str | None, second: str) -> str:
    """Return the worse outcome of two tests with the same id, as in two suites whose names the writer leaves out."""
    return second if first is None else min(first, second, key=_RANK.__getitem__)


def read_junit(data: bytes, *, max_tests: int = MAX_TESTS) -> tuple[dict[str, str], dict[str, str]]:
    """Return outcomes and failure messages by test id, of at most `max_tests` tests.

    Raises:
        ReportRefused: the report is not XML, or not XML of the accepted kind.
    """
    if len(data) > MAX_BYTES:
        raise ReportRefused(f"is larger than {MAX_BYTES} bytes")
    reader = _Reader(max_tests)
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
    except (LookupError, ValueError) as error:  # an unknown encoding, or one that expat does not support
        raise ReportRefused(f"cannot be decoded: {error}") from None
    return reader.outcomes, reader.whys
