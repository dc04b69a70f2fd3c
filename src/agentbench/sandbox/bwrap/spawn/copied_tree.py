"""Where a kernel refuses overlays: a sandbox's tree as a plain copy of its layers."""

from __future__ import annotations

import os
import shutil


def copy_into(source: str, target: str, owner: int | None) -> None:
    """Merge a frozen layer of ours into `target`. Nothing writes to either meanwhile."""
    with os.scandir(source) as entries:
        for entry in entries:
            path = f"{target}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), path)
            elif entry.is_dir(follow_symlinks=False):
                os.makedirs(path, exist_ok=True)
                copy_into(entry.path, path, owner)
                shutil.copystat(entry.path, path)
            else:
                shutil.copy2(entry.path, path)
            if owner is not None:
                os.chown(path, owner, owner, follow_symlinks=False)
