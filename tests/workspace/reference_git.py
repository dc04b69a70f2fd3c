"""Runs the real git as a reference in tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.invalid",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.invalid",
}


def git(
    folder: Path, *arguments: str | bytes, stdin: bytes = b"", check: bool = True, without: Collection[str] = ()
) -> bytes:
    env = {name: value for name, value in ENV.items() if name not in without}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=stdin, capture_output=True, env=env, check=False, timeout=600
    )
    if check and done.returncode != 0:
        raise AssertionError((arguments, done.stderr))
    return done.stdout


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return folder


def commit_all(folder: Path, message: str = "x") -> str:
    git(folder, "add", "-A", "-f")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD").decode().strip()
