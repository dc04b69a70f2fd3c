"""Runs git on the host so that no repository and no configuration can make it execute other programs.

Git runs only on repositories that this package created. In addition it has no hooks, filters, fsmonitor, pagers,
credential helpers, prompts, replace objects or templates, uses only the configuration below, and only the protocols in
`PROTOCOLS`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from agentbench.core.atomic_file import write_atomic
from agentbench.core.command import MIB, Completed
from agentbench.core.errors import AgentBenchError, SourceError, WorkspaceError
from agentbench.process import run_host
from agentbench.workspace.source.store import as_workspace_error, make_folder

PROTOCOLS = ("file", "git", "http", "https", "ssh")

_CONFIG = """\
[core]
	hooksPath = /dev/null
	fsmonitor = false
	untrackedCache = false
	attributesFile = /dev/null
	excludesFile = /dev/null
	autocrlf = false
	symlinks = true
	fileMode = true
	logAllRefUpdates = false
	pager = cat
	editor = false
	askPass =
	quotePath = false
[credential]
	helper =
	interactive = never
[safe]
	# In CI the repositories of a task often belong to another user than the harness.
	directory = *
[protocol]
	allow = never
[protocol "file"]
	allow = always
[protocol "git"]
	allow = always
[protocol "http"]
	allow = always
[protocol "https"]
	allow = always
[protocol "ssh"]
	allow = always
[gc]
	auto = 0
[maintenance]
	auto = false
[init]
	templateDir =
	defaultBranch = main
[advice]
	detachedHead = false
[fetch]
	recurseSubmodules = false
	writeCommitGraph = false
[submodule]
	recurse = false
[pack]
	threads = 2
[core]
	looseCompression = 1
[protocol]
	version = 2
"""

_INHERITED = (
    "PATH", "SSH_AUTH_SOCK", "http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "no_proxy",
    "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "TMPDIR",
)  # fmt: skip
"""Variables that a remote may need. HOME is left out, so that no user's configuration or credentials are used."""

_RESOURCE_ERRORS = (
    "no space left on device", "disk quota exceeded", "read-only file system", "unable to write",
    "cannot allocate memory", "out of memory", "input/output error", "cannot create temporary",
    "unable to create temporary",
)  # fmt: skip
"""Messages of git for failures of the host, which are harness errors."""


class HostGit:
    """Runs git with a fixed configuration and environment."""

    def __init__(self, home: Path, stop: threading.Event | None = None) -> None:
        """`home` is a folder of the cache for the configuration file. When `stop` is set, running commands are killed."""
        self._stop = stop
        self._config = home / "config"
        with as_workspace_error("cannot write the git configuration"):
            make_folder(home)
            if not self._config.is_file() or self._config.read_text(encoding="utf-8") != _CONFIG:
                write_atomic(self._config, _CONFIG.encode())

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {
            "PATH": os.defpath,
            **kept,
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self._config),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "SSH_ASKPASS": "/bin/false",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_FLUSH": "0",
        }

    def run(
        self,
        git_dir: Path,
        *arguments: str,
        work_tree: Path | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout_sec: float = 600,
    ) -> Completed:
        """Run git on a repository of this package. `env` is added to the environment. A failure of git is returned.

        Raises:
            WorkspaceError: the host is out of disk space or memory.
            HarnessError: git is not installed.
            Interrupted: it was stopped.
        """
        location = [f"--git-dir={git_dir}"]
        if work_tree is not None:
            location.append(f"--work-tree={work_tree}")
        done = run_host(
            ["git", "--no-pager", "--no-optional-locks", *location, *arguments],
            cwd=work_tree or git_dir.parent,
            env={**self.environment(), **(env or {})},
            stdin=stdin,
            timeout_sec=timeout_sec,
            keep_bytes=64 * MIB,
            stop=self._stop,
        )
        message = error_text(done)
        if not done.ok and any(sign in message.lower() for sign in _RESOURCE_ERRORS):
            raise WorkspaceError(f"git {arguments[0]} failed: {message}")
        return done

    def run_checked(
        self,
        git_dir: Path,
        *arguments: str,
        error: type[AgentBenchError] = WorkspaceError,
        work_tree: Path | None = None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git and return its output.

        Raises:
            AgentBenchError: git failed; `error` with git's message.
        """
        done = self.run(git_dir, *arguments, work_tree=work_tree, stdin=stdin, env=env)
        if not done.ok:
            raise error(f"git {arguments[0]} failed: {error_text(done)}")
        if done.stdout.dropped_bytes:
            raise SourceError(f"git {arguments[0]} wrote too much output: the repository is too large")
        return done.stdout.kept


def error_text(done: Completed) -> str:
    """Return the last lines of git's error output, joined to one line."""
    if done.timed_out:
        return f"timed out after {done.duration_sec:.0f} s"
    lines = [line.strip() for line in done.stderr.kept.decode("utf-8", "replace").splitlines() if line.strip()]
    return "; ".join(lines[-4:])[-500:] or f"exit code {done.exit_code}"
