"""Find a run directory by its path, its id, a unique prefix of its name or id, or as the latest run."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from agentbench.contract.problem import did_you_mean, nearest
from agentbench.core.errors import InputError
from agentbench.core.text import printable, shell_quoted
from agentbench.record.bundle import is_bundle
from agentbench.record.naming import ATTEMPTS, RUN_JSON, read_run_json

RUNS = Path("artifacts/runs")
"""Folder of run directories, unless the run is given with another folder."""
LATEST = "latest"
MAX_CANDIDATES = 10
MAX_ENTRIES = 100_000
"""Entries of a folder of runs."""


def find_run(text: str, runs: Path = RUNS) -> Path:
    """Return the run directory that `text` names: an existing path, or NAME or FOLDER/NAME.

    NAME is `latest` (the run that started last), the name or `run_id` of a run in the folder, or a prefix of either that
    only one run has. Without FOLDER, runs are looked up in `runs`.

    Raises:
        InputError: no run matches, or several do.
    """
    path = Path(text)
    if path.exists():
        return path.parent if path.name in {RUN_JSON, ATTEMPTS} and path.is_file() else path
    named_folder = "/" in text.rstrip("/")
    folder = path.parent if named_folder else runs
    candidates = run_directories(folder)
    if path.name == LATEST:
        if not candidates:
            below = " or ".join(shell_quoted(path / LATEST) for path in folders_with_runs(folder))
            remedy = f"give {below}" if below else "name another folder as FOLDER/latest"
            raise InputError(f"no runs in {folder}", remedy=remedy)
        return candidates[0]
    matches = matching_runs(path.name, candidates) if path.name else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = [printable(match.name) for match in matches[:MAX_CANDIDATES]] + ["…"] * (len(matches) > MAX_CANDIDATES)
        msg = f"'{printable(text)}' is ambiguous: {len(matches)} runs in {folder} match"
        raise InputError(msg, remedy="\n  ".join(["give more of the name:", *names]))
    problem = f"{printable(str(path))} does not exist" if named_folder else f"no run '{printable(text)}' in {folder}"
    if named_folder and not folder.exists():
        hint = _did_you_mean_path(path)
    else:
        hint = did_you_mean(path.name, [name for run in candidates for name in (run.name, run_id(run)) if name])
    msg = f"{problem}{hint}"
    raise InputError(msg, remedy=_listing(folder, candidates))


def _did_you_mean_path(path: Path) -> str:
    """Suggest a folder for the first one of a path that does not exist."""
    missing = next(parent for parent in (*reversed(path.parents), path) if not parent.exists())
    try:
        close = nearest(missing.name, [entry.name for entry in _entries(missing.parent) if entry.is_dir()])
    except OSError:
        return ""
    return f" (did you mean `{missing.with_name(close) / path.relative_to(missing)}`?)" if close else ""


def run_directories(folder: Path) -> list[Path]:
    """Return the run directories in a folder, newest first."""
    try:
        runs = [path for path in _entries(folder) if (path / RUN_JSON).is_file()]
    except OSError:
        return []
    return newest_first(runs)


def folders_with_runs(folder: Path) -> list[Path]:
    """Return folders with runs one level below a folder, sorted by name; at most MAX_CANDIDATES."""
    try:
        folders = sorted(path for path in _entries(folder) if path.is_dir() and not (path / RUN_JSON).is_file())
    except OSError:
        return []
    return list(itertools.islice(filter(run_directories, folders), MAX_CANDIDATES))


def newest_first(runs: Sequence[Path]) -> list[Path]:
    """Sort run directories by their start. `run.json` decides between runs that started in the same second."""
    starts = {run: _started(run) for run in runs}
    shared = {start for start, count in Counter(starts.values()).items() if count > 1}

    def key(run: Path) -> tuple[float, str, str]:
        return starts[run], _meta_text(run, "created_at") if starts[run] in shared else "", run.name

    return sorted(runs, key=key, reverse=True)


def bundles(folder: Path) -> list[Path]:
    """Return the share bundles in a folder, sorted by name. Other files are left out.

    Raises:
        InputError: the folder has too many entries.
    """
    try:
        return sorted(path for path in _entries(folder) if path.is_file() and is_bundle(path))
    except OSError:
        return []


def _entries(folder: Path) -> Iterator[Path]:
    """
    Raises:
        InputError: the folder has too many entries.
    """
    for number, path in enumerate(folder.iterdir(), start=1):
        if number > MAX_ENTRIES:
            raise InputError(f"{folder} has more than {MAX_ENTRIES} entries", remedy="give a folder with fewer runs")
        yield path


def run_id(path: Path) -> str:
    """Return the id of a run, or an empty string if its `run.json` cannot be read."""
    return _meta_text(path, "run_id")


def _started(path: Path) -> float:
    """Return the start of a run from its name, else from `run.json`; 0 if neither has it."""
    try:
        return datetime.strptime(path.name.partition("__")[0], "%Y-%m-%dT%H-%M-%S%z").timestamp()
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(_meta_text(path, "created_at")).timestamp()
    except ValueError:
        return 0.0


def matching_runs(name: str, candidates: Sequence[Path]) -> list[Path]:
    """Return the runs with this name or id, else those whose name or id starts with it."""
    ids = {path: run_id(path) for path in candidates}
    exact = [path for path in candidates if name in {path.name, ids[path]}]
    return exact or [path for path in candidates if path.name.startswith(name) or ids[path].startswith(name)]


def _meta_text(path: Path, key: str) -> str:
    try:
        meta = json.loads(read_run_json(path))
    except (OSError, ValueError):
        return ""
    value = meta.get(key) if isinstance(meta, dict) else None
    return value if isinstance(value, str) else ""


def _listing(folder: Path, candidates: Sequence[Path]) -> str:
    if not candidates:
        return "give the path of a run directory"
    option = "" if folder == RUNS else f" --out {shell_quoted(folder)}"
    return f"`ab runs ls{option}` lists {len(candidates)} run{'' if len(candidates) == 1 else 's'}"
