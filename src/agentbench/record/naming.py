"""Names of run directories and their files."""

from __future__ import annotations

import errno
import os
import re
from datetime import datetime
from pathlib import Path

from agentbench.core.errors import InputError, RecordError
from agentbench.core.regular_file import open_regular

RUN_JSON = "run.json"
ATTEMPTS = "attempts.jsonl"
REPORT = "report_summary.md"
PAGES = "report"
"""Folder of the pages that `ab report` writes."""
ADJUDICATIONS = "adjudications.jsonl"
SIGNATURE = "signature.dsse.json"
RETENTION_SIGNATURE = "retention.dsse.json"
"""Signature over a run that was reduced after it was signed."""
SIGNATURES = frozenset({SIGNATURE, RETENTION_SIGNATURE})
NAME_LENGTH = 60
MAX_RUN_JSON = 64 * 1024**2
"""Runs of 100,000 attempts have a quarter of this. A larger `run.json` is not read."""


def read_run_json(run: Path) -> bytes:
    """Read `run.json`.

    Raises:
        OSError: it cannot be read, or is too large.
    """
    with open_regular(run / RUN_JSON) as file:
        data = file.read(MAX_RUN_JSON + 1)
    if len(data) > MAX_RUN_JSON:
        raise OSError(errno.EFBIG, f"larger than {MAX_RUN_JSON} bytes", str(run / RUN_JSON))
    return data


def run_name(suite: str, variant: str, model: str | None) -> str:
    """Return `<time>__<suite>__<variant>__<model>`, valid on any file system."""
    time = datetime.now().astimezone().strftime("%Y-%m-%dT%H-%M-%S%z")
    return "__".join((time, *(_safe(part) for part in (suite, variant, model or ""))))


def _safe(text: str) -> str:
    """Reduce text to letters, digits, `.`, `-` and single `_`; never empty, never hidden."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", text)[:NAME_LENGTH].strip("._-")
    return name or "none"


def require_writable(out: Path) -> None:
    """Check that a run directory can be created in a folder, or in one that will be created; creates nothing.

    Raises:
        InputError: it cannot.
    """
    _refuse_run_directory(out)
    existing = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        reason = "not writable" if existing.is_dir() else "not a folder"
        msg = f"cannot create a run directory in {out}: {existing} is {reason}"
        raise InputError(msg, remedy="pass another folder with --out")


def _refuse_run_directory(out: Path) -> None:
    if (out / RUN_JSON).exists():
        msg = f"--out {out} is a run directory"
        raise InputError(msg, remedy="pass the folder that contains run directories, or resume this run with --resume")


def new_run_folder(out: Path, name: str) -> Path:
    """Create a new folder. If two runs start in the same second, the later one gets a number."""
    _refuse_run_directory(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1000):
            path = out / (name if number == 1 else f"{name}__{number}")
            try:
                path.mkdir()
                (path / "tasks").mkdir()
            except FileExistsError:
                if not path.is_dir():
                    raise
            else:
                return path
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise RecordError.of("create a run directory in", out, error) from error
        msg = f"cannot create a run directory in {out}: {error.strerror or error}"
        raise InputError(msg, remedy="pass another folder with --out") from error
    raise InputError(f"{out / name} already exists")
