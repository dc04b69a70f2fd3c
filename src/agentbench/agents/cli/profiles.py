"""The programs, each as it is run here. Every package is locked by version and digest; another lock is another program."""

from __future__ import annotations

from collections.abc import Mapping

from agentbench.agents.cli.profile import PRIVATE, TARGET, Profile, Source, from_npm, from_pypi
from agentbench.models.client.endpoint import Dialect
from agentbench.models.gateway.server import PORT

MINI_SWE_AGENT = Profile(
    name="mini-swe-agent",
    package="mini-swe-agent",
    version="2.4.6",
    source=Source.PYPI,
    # Its model library imports `mcp` and does not ask for it: the lock has it.
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
    # It keeps an index in the workspace, wherever else it is told to keep things; that is no part of its change.
    "; status=$?; rm -rf .aider.tags.cache.v*; exit $status",
    env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "AIDER_ANALYTICS": "false", "OR_SITE_URL": ""},
)

CLAUDE_CODE = Profile(
    name="claude-code",
    package="@anthropic-ai/claude-code",
    version="2.1.325",
    source=Source.NPM,
    # Its installer puts the program in place of its entry point; the package it came in is a second copy.
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
    # The program itself: the package's entry point only looks for it, and needs Node.
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

PROFILES: Mapping[str, Profile] = {one.name: one for one in (MINI_SWE_AGENT, CLAUDE_CODE, CODEX, AIDER)}
