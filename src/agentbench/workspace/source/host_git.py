"""Git on the host, with nothing left that a repository, a user or a system could make it execute.

It is run only on repositories that this package made. Still: no hooks, filters, fsmonitor, pagers, credential helpers,
prompts, replace objects or templates; no configuration but ours; only these protocols.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentbench.core.command import MIB, Completed
from agentbench.core.errors import AgentBenchError, SourceError, WorkspaceError
from agentbench.process import run_host
from agentbench.workspace.source.store import make_folder, ours

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
	# The task names its repositories; in CI they often belong to another user than the one who runs us.
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
    "PATH", "SSH_AUTH_SOCK", "http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "no_proxy", "NO_PROXY",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "TMPDIR",
)  # fmt: skip
"""What reaching a remote may need. HOME is not among it: nobody's configuration or credentials are used."""

_OUR_TROUBLE = (
    "no space left on device", "disk quota exceeded", "read-only file system", "unable to write", "cannot allocate memory",
    "out of memory", "input/output error", "cannot create temporary", "unable to create temporary",
)  # fmt: skip


class HostGit:
    """Runs git with our configuration and environment alone."""

    def __init__(self, home: Path) -> None:
        """`home` is a folder of ours where the configuration file lies."""
        self._config = home / "config"
        with ours("the configuration for git cannot be written"):
            make_folder(home)
            if not self._config.is_file() or self._config.read_text(encoding="utf-8") != _CONFIG:
                fresh = home / f".config-{os.getpid()}-{os.urandom(4).hex()}"
                fresh.write_text(_CONFIG, encoding="utf-8")
                fresh.replace(self._config)

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
        extra: Mapping[str, str] | None = None,
        timeout_sec: float = 600,
    ) -> Completed:
        """Run git on one repository of ours. A failure of git is data.

        Raises:
            WorkspaceError: the disk or memory gave out.
            HarnessError: there is no git.
        """
        place = [f"--git-dir={git_dir}"]
        if work_tree is not None:
            place.append(f"--work-tree={work_tree}")
        done = run_host(
            ["git", "--no-pager", "--no-optional-locks", *place, *arguments],
            cwd=work_tree or git_dir.parent,
            env={**self.environment(), **(extra or {})},
            stdin=stdin,
            timeout_sec=timeout_sec,
            keep_bytes=64 * MIB,
        )
        said = words(done).lower()
        if not done.ok and any(sign in said for sign in _OUR_TROUBLE):
            raise WorkspaceError(f"git {arguments[0]} failed: {words(done)}")
        return done

    def must(
        self,
        git_dir: Path,
        *arguments: str,
        error: type[AgentBenchError] = WorkspaceError,
        work_tree: Path | None = None,
        stdin: bytes = b"",
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git where it has to succeed; what it wrote.

        Raises:
            AgentBenchError: `error`, with git's own words.
        """
        done = self.run(git_dir, *arguments, work_tree=work_tree, stdin=stdin, extra=extra)
        if not done.ok:
            raise error(f"git {arguments[0]} failed: {words(done)}")
        if done.stdout.dropped_bytes:
            raise SourceError(f"git {arguments[0]} wrote more than is read: the repository is too large")
        return done.stdout.kept


def words(done: Completed) -> str:
    """The end of what git said, on one line."""
    if done.timed_out:
        return f"no answer within {done.duration_sec:.0f} s"
    lines = [line.strip() for line in done.stderr.kept.decode("utf-8", "replace").splitlines() if line.strip()]
    return "; ".join(lines[-4:])[-500:] or f"exit code {done.exit_code}"
