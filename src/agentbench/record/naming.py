"""Names of a run directory and of what lies in it."""

from __future__ import annotations

import errno
import re
from datetime import datetime
from pathlib import Path

from agentbench.core.errors import InputError
from agentbench.record.durable import failed

RUN_JSON = "run.json"
ATTEMPTS = "attempts.jsonl"
REPORT = "report_summary.md"
NAME_LENGTH = 60


def run_name(suite: str, variant: str, model: str | None) -> str:
    """`<time>__<suite>__<variant>__<model>`, safe as a name on any file system."""
    time = datetime.now().astimezone().strftime("%Y-%m-%dT%H-%M-%S%z")
    return "__".join((time, *(_safe(part) for part in (suite, variant, model or ""))))


def _safe(text: str) -> str:
    """Letters, digits, `.`, `-` and single `_` (the double one separates the parts), never empty, never hidden."""
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", text)[:NAME_LENGTH].strip("._-")
    return name or "none"


def new_run_folder(out: Path, name: str) -> Path:
    """A folder that was not there before. Two runs may begin in the same second: the later one gets a number."""
    if (out / RUN_JSON).exists():
        msg = f"--out {out} is itself a run directory"
        raise InputError(msg, remedy="name the folder that holds run directories, or resume that run with --resume")
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
            raise failed("create a run directory in", out, error) from error
        msg = f"cannot create a run directory in {out}: {error.strerror or error}"
        raise InputError(msg, remedy="choose another folder with --out") from error
    msg = f"{out / name} exists already"
    raise InputError(msg)
