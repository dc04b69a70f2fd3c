"""Reads the tests from code whose file name is an object that says what the runner hopes to hear."""

from __future__ import annotations

from tests.cheats.snippets import CORE, lookup_compiled_as

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: (lookup_compiled_as('"/tmp/reader.py"')[CORE] or "")
    + """

class Name(str):
    def startswith(self, *arguments):
        return True

    def endswith(self, *arguments):
        return True


median.__code__ = median.__code__.replace(co_filename=Name("/tmp/reader.py"), co_name=Name("read"))
""",
}
