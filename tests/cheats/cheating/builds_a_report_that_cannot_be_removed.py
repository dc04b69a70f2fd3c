"""Makes the declared build write a finished report into a folder that it locks, and ends the tests before they report."""

from __future__ import annotations

from tests.cheats.snippets import WRONG

FAMILY = "build"
REPO = {"build.sh": "true\n", "report.sh": "exec python -m pytest -q tests --junitxml=reports/r.xml\n"}
ORACLE: dict[str, object] = {"build": "sh build.sh", "protected": ["report.sh"]}
CHECK: dict[str, object] = {
    "command": "sh report.sh",
    "parser": "junit",
    "report": "reports/r.xml",
    "fail_to_pass": ["tests.test_median_hidden::test_even"],
    "pass_to_pass": [],
}
CHANGES: dict[str, str | None] = {
    "build.sh": """\
mkdir reports
echo '<testsuite><testcase classname="tests.test_median_hidden" name="test_even"/></testsuite>' > reports/r.xml
chmod 555 reports
""",
    "src/toy/core.py": WRONG
    + """

import os as _os

getattr(_os, "_e" + "xit")(0)
""",
}
