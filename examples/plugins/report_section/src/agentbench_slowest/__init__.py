"""A report section: the slowest attempts, and how much of their time the agent used."""

import agentbench as ab

SHOWN = 5


def slowest(run: ab.Run) -> str:
    attempts = sorted(run.attempts, key=lambda attempt: -attempt.duration_sec)[:SHOWN]
    rows = (
        f"| `{attempt.task_id}` | {attempt.repeat} | {attempt.duration_sec:.1f} s | {attempt.usage.wall_sec:.1f} s |"
        for attempt in attempts
    )
    head = ["## Slowest attempts", "", "| task | repeat | whole attempt | agent |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])
