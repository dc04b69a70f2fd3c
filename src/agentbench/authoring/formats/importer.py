"""Importers of plug-ins: functions that create tasks from the format of another benchmark."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from agentbench.contract.load import LoadedTask, load_task
from agentbench.plugins.extensions import Extensions
from agentbench.plugins.kinds import Kind

BUILT_IN = ("swebench", "harbor")


class Importer(Protocol):
    r"""Creates tasks from a file or folder of another benchmark; the plug-in of kind `importer`.

    Gets the source and the folder of the suite, writes one folder with a `task.yaml` per task, and returns these folders.

    Examples:
        >>> import agentbench as ab
        >>> from pathlib import Path
        >>> def puzzles(source: Path, suite: Path) -> list[Path]:
        ...     folders = [suite / line for line in source.read_text().split()]
        ...     for folder in folders:
        ...         folder.mkdir(parents=True)
        ...         text = f"id: {folder.name}\nsuite: {suite.name}\nrepo: none\nstatement: Explain {folder.name}.\n"
        ...         _ = (folder / "task.yaml").write_text(text)
        ...     return folders
        >>> _ = Path("list.txt").write_text("stack queue")
        >>> [task.id for task in ab.import_tasks(puzzles, "list.txt", "tasks/puzzles")]
        ['stack', 'queue']
    """

    def __call__(self, source: Path, suite: Path, /) -> Iterable[Path]: ...


OTHER_IMPORTERS: Extensions[Importer] = Extensions(Kind.IMPORTER, BUILT_IN)


def import_with(importer: Importer, source: Path, suite: Path) -> tuple[LoadedTask, ...]:
    """Create tasks and load each of them.

    Raises:
        InputError: the importer failed, or a created task is invalid.
    """
    with OTHER_IMPORTERS.calling(getattr(importer, "__name__", "")):
        folders = list(importer(source, suite))
    return tuple(map(load_task, folders))
