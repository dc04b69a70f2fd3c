"""ARCHITECTURE.md and CONTRIBUTING.md name functions and files that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "agentbench"
PATH = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split("## The path of one attempt")[1].split("\n## ")[0]
STEPS = re.findall(r"^ *\d+\. `([\w/]+\.py)`: (.*(?:\n(?! *\d+\. ) +.*)*)", PATH, re.MULTILINE)
NAMES = [(file, name) for file, text in STEPS for name in re.findall(r"`([A-Z]\w*\.\w+|[A-Za-z_]\w*)`", text)]
CHANGES = (
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Where does a change belong?")[1].split("\n## ")[0]
)


def defined(file: str) -> set[str]:
    """Return the functions, classes and constants of a module, and methods as `Class.method`."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = {node.name for node in tree.body if isinstance(node, kinds)}
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    assigned += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    names |= {target.id for target in assigned if isinstance(target, ast.Name)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{member.name}" for member in node.body if isinstance(member, kinds)}
    return names


def test_path_has_at_most_25_files() -> None:
    assert 20 <= len({file for file, _ in STEPS}) <= 25


@pytest.mark.parametrize("file", [file for file, _ in STEPS])
def test_step_names_an_existing_function(file: str) -> None:
    names = {name for step, name in NAMES if step == file}
    assert names & defined(file), f"{file} defines none of {sorted(names)}"


@pytest.mark.parametrize("file,name", NAMES, ids=[f"{file}-{name}" for file, name in NAMES])
def test_named_function_exists(file: str, name: str) -> None:
    assert name in defined(file)


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`([a-z_]+/[\w/]*\.(?:py|json))`", (ROOT / "ARCHITECTURE.md").read_text())))
)
def test_named_file_exists(path: str) -> None:
    assert (PACKAGE / path).is_file() or (ROOT / path).is_file()


@pytest.mark.parametrize("name,file", re.findall(r"`(\w+)` in `(\w+/[\w/]+\.py)`", CHANGES))
def test_name_in_the_table_of_changes_exists(name: str, file: str) -> None:
    assert name in defined(file)
