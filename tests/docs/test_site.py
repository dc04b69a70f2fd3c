"""The documentation site builds strictly and needs no network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", str(config), "--site-dir", str(site)]
    environment = {"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=config.parent, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    return folder


def test_site_loads_nothing_from_the_network(sources: Path, tmp_path: Path) -> None:
    result = build(sources / "mkdocs.yml", tmp_path)
    assert result.returncode == 0, result.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|img|iframe)[^>]*\ssrc=\"(http[^\"]*)|<link[^>]*\shref=\"(http[^\"]*)", page.read_text()
        )
        assert not loaded, f"{page.name} loads {loaded}"


@pytest.mark.parametrize("link", ["missing.md", "quickstart.md#no-such-heading"])
def test_broken_link_or_anchor_fails_the_build(sources: Path, tmp_path: Path, link: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sources, copy)
    page = copy / "docs" / "index.md"
    page.write_text(f"{page.read_text()}\n[broken]({link})\n")
    result = build(copy / "mkdocs.yml", tmp_path / "site")
    assert result.returncode != 0
    assert link.partition("#")[2] in result.stderr
