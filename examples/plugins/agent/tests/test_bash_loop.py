from pathlib import Path

from agentbench_bash_loop import bash_loop

import agentbench as ab


class Scripted:
    """A model that answers from a list."""

    name = "scripted-bash"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)

    def complete(self, messages, tools=(), *, max_tokens=None) -> ab.Reply:
        return ab.Reply(self.replies.pop(0))


def test_commands_run_until_a_reply_has_none(tmp_path: Path) -> None:
    task = ab.load_suite("demo").tasks[-1]
    model = Scripted("I look.\n```bash\nls\n```", "```bash\ntouch seen\n```", "Nothing to do.")
    (attempt,) = ab.run(task, agent=bash_loop, model=model, out=tmp_path).attempts
    assert attempt.termination.rationale == "Nothing to do."
    assert attempt.usage.tool_calls == 2
