"""Every extra is documented, checked before a release, and named by what needs it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from scripts.check_extras import NEEDS

pytestmark = pytest.mark.component
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


def test_installation_page_lists_every_extra_with_its_packages() -> None:
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8").split("## Extras")[1].split("\n## ")[0]
    rows = {extra: adds.lower() for extra, adds in re.findall(r"^\| `(\w+)` \| ([^|]+) \|", page, re.MULTILINE)}
    assert set(rows) == set(EXTRAS)
    for extra, requirements in EXTRAS.items():
        names = {re.split(r"[<>=\[]", requirement)[0] for requirement in requirements}
        assert set(rows[extra].strip().split(", ")) == names


def test_release_check_has_a_command_for_every_extra() -> None:
    assert set(NEEDS) == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_code_that_needs_an_extra_names_it(extra: str) -> None:
    sources = (ROOT / "src/agentbench").rglob("*.py")
    assert any(f"pip install 'agentbench-harness[{extra}]'" in file.read_text(encoding="utf-8") for file in sources)


def test_supported_pythons_are_those_that_are_tested() -> None:
    declared = re.findall(r":: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    tested = re.search(r"^readonly SUPPORTED=\(([\d. ]+)\)$", (ROOT / "scripts/test-pythons").read_text(), re.MULTILINE)
    assert tested is not None
    assert tested[1].split() == declared
