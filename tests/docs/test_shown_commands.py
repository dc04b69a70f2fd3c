"""Commands on the pages print what the pages show.

`<!-- run -->` before a console block: the commands run in order, in a folder with the files of docs/examples and the run
directories that `ab demo` left (tests/data/demo-runs.tar.xz). `<!-- snapshot: NAME -->`: the output is compared with tests/cli/snapshots/NAME.txt.
Times, ids and paths are normalised as in the snapshots. `…` stands for omitted text; on a line of its own, for omitted lines.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentbench.cli.demo import METHODS
from agentbench.contract.suite import load_suite
from tests.cli.conftest import INHERITED
from tests.cli.snapshots import FOLDER as SNAPSHOTS
from tests.cli.snapshots import normalise
from tests.execution.preloaded import write_preloaded_program
from tests.session_state import shared_state

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"<!-- (?P<kind>run|snapshot: (?P<name>[\w-]+)) -->\n+```console\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)
DEMO_RUNS = ROOT / "tests" / "data" / "demo-runs.tar.xz"
"""The run directories of `ab demo`, as demo-METHOD. Record them again, and then the pages, when its tasks or agents change."""
SHOWN_FOLDER = "/home/ada/project"
"""The project folder in outputs on the pages."""
DEMO = "artifacts/runs/2026-11-16T12-00-00+0000__demo__{}__none"


@dataclass(frozen=True, slots=True)
class Shown:
    """A command on a page, and the output shown below it."""

    command: str
    output: str


def commands_of(text: str) -> Iterator[Shown]:
    """Split a console block at its prompts. A command continues after a backslash at the end of a line."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.split("\n")
        end = next(number for number, line in enumerate(lines) if not line.endswith("\\")) + 1
        yield Shown("\n".join(lines[:end]), "\n".join(lines[end:]).rstrip("\n"))


def blocks(kind: str) -> dict[str, list[re.Match[str]]]:
    """Return the marked blocks by page."""
    found = {
        str(page.relative_to(ROOT)): [
            block for block in BLOCK.finditer(page.read_text(encoding="utf-8")) if block["kind"].startswith(kind)
        ]
        for page in PAGES
    }
    return {page: matches for page, matches in found.items() if matches}


def shows(expected: str, actual: str, places: dict[str, str]) -> bool:
    """Return whether the shown output is the actual one, apart from what varies and what `…` omits."""
    pattern = ""
    for line in normalise(expected, places).split("\n"):
        pattern += r"(?:.*\n)*?" if line.strip() == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
    return re.fullmatch(pattern, normalise(actual, places).rstrip("\n") + "\n") is not None or expected == actual == ""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project folder with the example files and the runs of `ab demo`."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "docs" / "examples", project)
    with tarfile.open(DEMO_RUNS) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path / "recorded")  # noqa: S202 - an archive of our own
    for run in (tmp_path / "recorded").iterdir():
        shutil.copytree(run, project / DEMO.format(run.name.removeprefix("demo-")))
    return project


def execute(command: str, folder: Path, env: dict[str, str], last: int) -> tuple[int, str]:
    """Run a command line in bash. `last` is the exit code of the command before it, for `$?`."""
    script = f"set -o pipefail; (exit {last})\n{command}"
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=900,
    )
    return result.returncode, result.stdout


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("page", blocks("run"))
def test_commands_print_what_the_page_shows(
    page: str, folder: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    state = shared_state(tmp_path_factory, "docs-state")
    (tmp_path / "bin").mkdir()
    write_preloaded_program(tmp_path / "bin")
    env = {name: os.environ[name] for name in INHERITED if name in os.environ}
    env |= {"PATH": f"{tmp_path / 'bin'}:{sys.prefix}/bin:{os.environ['PATH']}", "HOME": str(folder)}
    env |= {"AB_STATE": str(state), "COLUMNS": "110"}
    places = {str(state): "<state>", str(folder): "<dir>", SHOWN_FOLDER: "<dir>", sys.prefix: "<prefix>"}
    differences, code = [], 0
    for block in blocks("run")[page]:
        for shown in commands_of(block["text"]):
            code, actual = execute(shown.command, folder, env, code)
            if not shows(shown.output, actual, places):
                differences.append(f"$ {shown.command}\n{actual.replace(str(folder), SHOWN_FOLDER)}")
    if differences:
        pytest.fail(f"{page} shows something else than:\n\n" + "\n".join(differences), pytrace=False)


def test_recorded_demo_has_the_agents_and_tasks_of_the_demo(folder: Path) -> None:
    tasks = [task.id for task in load_suite("demo", folder).tasks]
    for method in METHODS:
        run = json.loads((folder / DEMO.format(method) / "run.json").read_text(encoding="utf-8"))
        assert run["tasks"] == tasks


@pytest.mark.parametrize("page", blocks("snapshot"))
def test_shown_output_is_in_the_snapshots(page: str) -> None:
    for block in blocks("snapshot")[page]:
        recorded = (SNAPSHOTS / f"{block['name']}.txt").read_text(encoding="utf-8")
        output = re.sub(r"^(?:\$ .*|exit code: .*|----- \w+ -----)\n+", "", recorded, flags=re.MULTILINE)
        (shown,) = commands_of(block["text"])
        assert shows(shown.output, output, {".venv": "<prefix>"}), f"{page}: see {block['name']}.txt"


EXAMPLE = re.compile(
    r"`docs/examples/(?P<name>[\w./-]+)`[^\n`]*:\n\n```\w+\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE
)


def test_example_files_are_shown_as_they_are() -> None:
    examples = [match for page in PAGES for match in EXAMPLE.finditer(page.read_text(encoding="utf-8"))]
    assert {match["name"] for match in examples} >= {"gate.yaml", "scenario.yaml", "agent/solve.sh"}
    for match in examples:
        text = (ROOT / "docs" / "examples" / match["name"]).read_text(encoding="utf-8")
        assert shows(match["text"].rstrip("\n"), text, {}), match["name"]


def test_pages_show_commands_that_run() -> None:
    assert "README.md" in blocks("snapshot")
    assert {"docs/quickstart.md", "docs/how-to/write-a-task.md"} <= set(blocks("run"))
