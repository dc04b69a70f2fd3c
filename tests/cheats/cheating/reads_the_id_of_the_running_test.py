"""Takes the expected value from the id of the running test, which pytest puts into the environment."""

from __future__ import annotations

from tests.cheats.snippets import ANSWER_FROM_IDS, CORE, MEAN, TABLE_REQUIREMENTS, TABLE_TESTS

FAMILY = "leaks"
HIDDEN = TABLE_TESTS
CHECK = TABLE_REQUIREMENTS
CHANGES: dict[str, str | None] = {
    CORE: "import os\nimport re\n"
    + MEAN
    + """

def median(values):
    texts = [os.environ.get("PYTEST_CURRENT_TEST", "")]
"""
    + ANSWER_FROM_IDS,
}
