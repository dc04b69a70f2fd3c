"""Adds a hook to the project's conftest while it is imported, under its file name."""

from __future__ import annotations

from tests.cheats.snippets import CORE, WRONG

FAMILY = "runner"
CHANGES: dict[str, str | None] = {
    CORE: WRONG
    + r"""

def _install():
    import sys

    text = (
        "def pytest_runtest_logreport(report):\n"
        "    if 'workspace' in str(report.location) or report.nodeid.startswith('tests/'):\n"
        "        report.outcome = 'passed'\n        report.longrepr = None\n"
    )
    for name, module in list(sys.modules.items()):
        if name.endswith("conf" + "test"):
            exec(compile(text, module.__file__, "exec"), vars(module))


_install()
""",
}
