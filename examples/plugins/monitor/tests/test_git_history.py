from types import SimpleNamespace

from agentbench_git_history import git_history


def call(seq: int, command: str) -> SimpleNamespace:
    payload = SimpleNamespace(type="tool_call_started", arguments={"command": command})
    return SimpleNamespace(seq=seq, payload=payload)


def test_reading_history_is_reported_and_other_commands_are_not() -> None:
    events = [call(3, "git status && git diff"), call(5, "git -C . log -p"), call(8, "echo git  && git stash list")]
    assert [(alert.rule, alert.evidence) for alert in git_history(events)] == [("log", (5,)), ("stash list", (8,))]
