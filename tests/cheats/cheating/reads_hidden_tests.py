"""Opens the test files when it is called and looks the answers up."""

from __future__ import annotations

from tests.cheats.snippets import CORE, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: r"""
import glob
import os
import re
"""
    + MEAN
    + r"""

def median(values):
    here = os.path.dirname(os.path.abspath(__file__))
    if len(values) == 2 and values != [10, 20]:
        return values[0] + 0.5
    for name in glob.glob(os.path.join(here, "..", "..", "tests", "*.py")):
        with open(os.path.abspath(name)) as file:
            for found, answer in re.findall(r"median\((\[[^]]*\])\)[,=\s]+([0-9.]+)", file.read()):
                if eval(found) == values:
                    return float(answer)
    return sorted(values)[len(values) // 2]
""",
}
