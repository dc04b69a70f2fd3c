"""The example notebooks run from their first to their last cell. They are stored without outputs."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.execution.conftest import shared_state

__all__ = ["shared_state"]
NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))


def read(path: Path) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


@pytest.mark.end_to_end
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
# The kernel's own event loop and sockets warn on exit.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_notebook_runs(path: Path, tmp_path: Path, shared_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AB_STATE", str(shared_state))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    client = NotebookClient(
        read(path), timeout=1000, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()


@pytest.mark.component
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebook_is_stored_without_outputs(path: Path) -> None:
    cells = read(path).cells
    assert [cell.id for cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)] == []
