"""Makes the declared build overwrite hidden tests that the base repository cannot import, so that their code is not
known.
"""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "build"
REPO = {"build.sh": "true\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh"}
HIDDEN = {
    "tests/test_spread_hidden.py": """\
from toy.core import spread


def test_spread():
    assert spread([1, 4]) == 3
""",
}
CHECK: dict[str, object] = {"fail_to_pass": ["tests/test_spread_hidden.py::test_spread"]}
CHANGES: dict[str, str | None] = {
    CORE: WRONG,
    "build.sh": r"printf 'def test_spread():\n    pass\n' > tests/test_spread_hidden.py" + "\n",
}
