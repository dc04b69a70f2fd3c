"""The source tree matches its documentation."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "agentbench"
PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / "docs").rglob("*.md"),
]


def packages() -> list[Path]:
    return sorted(folder.parent for folder in PACKAGE.glob("*/__init__.py"))


def modules() -> list[Path]:
    return [file for file in PACKAGE.rglob("*.py") if "demo" not in file.relative_to(PACKAGE).parts]


@pytest.mark.parametrize("package", packages(), ids=lambda path: path.name)
def test_package_docstring_states_responsibility(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert re.search("must not|never", text, re.IGNORECASE), (
        f"the docstring of {package.name} must state what the package must not do"
    )
    assert len(text) > 100


def _existing(layer: str) -> str:
    """Remove packages that do not exist from a layer."""
    names = [name.strip().strip("()") for name in layer.split("|")]
    return " | ".join(name for name in names if (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").exists())


def test_documented_layers_match_the_import_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {contract["id"]: contract for contract in settings["tool"]["importlinter"]["contracts"]}
    checked = [existing for layer in contracts["layers"]["layers"] if (existing := _existing(layer))]
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    block = page.split("## Layers", 1)[1].split("```")[1].strip().splitlines()
    assert [re.sub(r"\s{2,}.*", "", line) for line in block] == checked
    assert contracts["layers"]["exhaustive"] is True


def test_architecture_page_lists_every_package() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    for package in packages():
        assert f"| `{package.name}/` |" in page, package.name


def test_no_catch_all_modules() -> None:
    catch_alls = {"utils", "util", "helpers", "helper", "common", "misc", "shared"}
    assert [file for file in modules() if file.stem in catch_alls or file.parent.name in catch_alls] == []


def test_demo_suite_cannot_be_imported() -> None:
    assert not (PACKAGE / "demo" / "__init__.py").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_between_pages_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_env_example_has_no_values() -> None:
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines():
        assert not line.strip() or line.startswith("#"), line
        assert not re.search(r"(KEY|TOKEN|SECRET)=\S", line), line


def test_every_ruff_exception_has_a_reason() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text.split("\nignore = [\n", 1)[1].split("\n]\n", 1)[0].splitlines()
    for before, line in zip(["", *block], block, strict=False):
        assert "#" in line or before.lstrip().startswith("#"), f"no reason: {line.strip()}"
