"""Ask the candidate's program questions and report the results. Copied into every driver of `ab task new --probe`.

Protocol of a driver: what it writes to stdout is the program's stdin, what the program writes to stdout is its stdin. For each
result it writes one JSON line {"id", "outcome": "pass" or "fail", "why"} to the descriptor $AB_RESULT_FD, and at the end
{"end": number of results}. Ids are distinct and do not depend on answers. Exit code 0. It needs only the standard library and
runs with the task's Python, 3.6 or newer, in a sandbox without the program's files.
"""

import json
import os
import sys

MAX_LINE = 65536


class Probe:
    """Reports results; the end line is written when the `with` block ends without an exception."""

    def __init__(self) -> None:
        self.results = os.fdopen(int(os.environ["AB_RESULT_FD"]), "w", encoding="utf-8")
        self.ids = set()  # type: set[str]

    def __enter__(self) -> "Probe":  # noqa: PYI034 - typing.Self is newer than some tasks' Python
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if kind is None:
            self.results.write(json.dumps({"end": len(self.ids)}) + "\n")
        self.results.close()

    def ask(self, question: str) -> str:
        """Send one line and return the next line of the program, or an empty text if the program has ended."""
        try:
            # Straight to the descriptor: nothing may be left in a buffer when the program has ended.
            os.write(1, (question + "\n").encode())
        except OSError:
            return ""
        return sys.stdin.readline(MAX_LINE).rstrip("\n")

    def report(self, name: str, *, passed: bool, why: str = "") -> None:
        """Report one result under a distinct name."""
        if name in self.ids:
            raise ValueError("result id used twice: " + name)
        self.ids.add(name)
        self.results.write(json.dumps({"id": name, "outcome": "pass" if passed else "fail", "why": why}) + "\n")

    def expect(self, name: str, question: str, expected: str) -> None:
        """Ask a question and report whether the answer is the expected one."""
        answer = self.ask(question)
        why = "" if answer == expected else f"expected {expected!r}, got {answer[:80]!r}"
        self.report(name, passed=answer == expected, why=why)
