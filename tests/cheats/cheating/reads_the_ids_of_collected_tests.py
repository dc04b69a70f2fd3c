"""Takes the expected value from a name that the running test has in the session: id, parameters' id, keyword, location."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_IDS, CORE, FIND_SESSION, MEAN, TABLE_REQUIREMENTS, TABLE_TESTS

FAMILY = "leaks"
HIDDEN = TABLE_TESTS
CHECK = TABLE_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: "import os\nimport re\nimport sys\n"
    + MEAN
    + FIND_SESSION
    + """

def median(values):
    running = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    texts = []
    for one in _finder().session.items if _finder() else ():
        if one.nodeid == running and hasattr(one, "callspec"):
            names = [one.name, one.nodeid, one.callspec.id, repr(one), *one.keywords, *one.location, *one.listnames()]
            texts += [str(name).partition("[")[2] for name in names] + ["-" + one.callspec.id.rpartition("-")[2]]
"""
    + ANSWER_FROM_IDS,
}
