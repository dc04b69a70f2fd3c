import ast
import importlib
import json
import sys
import tomllib
from pathlib import Path

import pytest

from siteconf.errors import ConfigError

ROOT = Path(__file__).parents[1]


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_nothing_outside_the_standard_library_is_imported():
    for file in (ROOT / "siteconf").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "siteconf"]
            for name in names:
                top = name.split(".")[0]
                assert top == "siteconf" or top in sys.stdlib_module_names, f"{file.name} imports {name}"


def test_project_declares_no_dependencies():
    assert project().get("dependencies", []) == []


def test_project_needs_a_python_with_tomllib():
    assert project()["requires-python"].replace(" ", "").startswith(">=3.11")


def test_requirements_list_nothing():
    file = ROOT / "requirements.txt"
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    assert [line for line in lines if line.strip() and not line.lstrip().startswith("#")] == []


def test_declared_command_exists(tmp_path, capsys):
    module, _, name = project()["scripts"]["siteconf"].partition(":")
    run = getattr(importlib.import_module(module), name)
    file = tmp_path / "a.toml"
    file.write_text("[server]\nport = 80\n")
    assert run(["get", str(file), "server.port"]) == 0
    assert json.loads(capsys.readouterr().out) == 80


def test_rest_of_the_project_file_is_kept():
    assert project()["name"] == "siteconf"
    assert project()["version"]
    text = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert text["tool"]["setuptools"]["packages"] == ["siteconf"]
    assert text["build-system"]["build-backend"] == "setuptools.build_meta"


def test_broken_file_is_named(tmp_path):
    from siteconf.load import load

    file = tmp_path / "broken.toml"
    file.write_text("port = = 1\n")
    with pytest.raises(ConfigError, match="broken.toml"):
        load([file])


@pytest.mark.parametrize("text, value", [("8080", 8080), ("true", True), ("plain words", "plain words"), ('"8080"', "8080"), ("[1, 2]", [1, 2])])
def test_variables_are_toml_values_or_text(text, value):
    from siteconf.variables import overrides

    assert overrides({"SITE_A__B": text, "OTHER": "x"}) == {"a": {"b": value}}


def test_files_are_utf8_whatever_the_locale(tmp_path):
    from siteconf.load import load_file

    file = tmp_path / "name.toml"
    file.write_bytes('name = "Gruß"\n'.encode())
    assert load_file(file) == {"name": "Gruß"}
