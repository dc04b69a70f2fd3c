"""`--notify URL`: tell a webhook when a run ends, a gate fails or an operator is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentbench.cli.settings import ConfiguredOption, read_settings

if TYPE_CHECKING:
    from agentbench.core.canonical import Json
    from agentbench.execution.operator import PendingQuestion
    from agentbench.notify import Notifier, Webhook

F = TypeVar("F", bound=Callable[..., Any])
_KEY = "agentbench.notifier"
MAX_CALL = 4_000


class Announcer:
    """Turns what happens to a run into notifications. Without a webhook it does nothing."""

    def __init__(self, notifier: Notifier | None = None) -> None:
        self._notifier = notifier

    def finished(self, runs: Iterable[Path], exit_code: int) -> None:
        self._send("run_finished", lambda: {"exit_code": exit_code, "runs": list(map(_counts, runs))})

    def interrupted(self, run: Path) -> None:
        self._send("run_interrupted", lambda: {"runs": [_counts(run)]})

    def gate_failed(self, runs: Iterable[Path], why: str) -> None:
        self._send("gate_failed", lambda: {"why": why, "runs": list(map(_counts, runs))})

    def stage_ended(self, folder: Path, stage: str, decision: str, *, held: bool) -> None:
        """A stage of a pilot ended. `held` is false if it may not start, is not complete or was stopped for a defect."""
        data: dict[str, Json] = {"pilot": folder.absolute().name, "stage": stage, "decision": decision}
        self._send("run_finished" if held else "gate_failed", lambda: data)

    def asked(self, run: Path, question: PendingQuestion) -> None:
        self._send(
            "operator_question",
            lambda: {
                "run": run.name,
                "question_id": question.id,
                "task_id": question.task_id,
                "variant": question.variant,
                "repeat": question.repeat,
                "rule": question.rule,
                "detail": question.detail[:MAX_CALL],
                "call": question.call[:MAX_CALL],
                "deadline_at": question.deadline_at,
            },
        )

    def _send(self, event: str, data: Callable[[], dict[str, Json]]) -> None:
        """Send a notification. Nothing that goes wrong here may reach the run."""
        if self._notifier is None:
            return
        try:
            self._notifier.send(event, data())
        except Exception as error:  # noqa: BLE001 - see above
            _warn(f"notification {event} not sent: {type(error).__name__}: {error}")


def notify_option(function: F) -> F:
    """Add `--notify`. The webhook belongs to the context of the command; `announcer` returns it."""
    return click.option(
        "--notify",
        cls=ConfiguredOption,
        metavar="URL",
        expose_value=False,
        callback=_open,
        help="Send signed JSON to this URL when the run ends, a gate fails or an operator is asked; the secret is "
        "$AB_NOTIFY_SECRET.",
    )(function)


def announcer() -> Announcer:
    """Return the notifications of the current command. Call it on the main thread."""
    context = click.get_current_context(silent=True)
    return Announcer(None if context is None else context.meta.get(_KEY))


def _open(context: click.Context, _parameter: click.Parameter, url: str | None) -> None:
    if url is None or context.resilient_parsing:
        return
    from agentbench.notify import Webhook

    webhook = Webhook.of(url, str(read_settings()["notify-secret"].value or ""))
    context.meta[_KEY] = context.with_resource(_opened(webhook))


@contextmanager
def _opened(webhook: Webhook) -> Iterator[Notifier]:
    from agentbench.notify import Notifier

    notifier = Notifier(webhook, _warn)
    try:
        yield notifier
    finally:
        notifier.close()


def _warn(message: str) -> None:
    from agentbench.core.text import printable

    click.echo(f"warning: {printable(message)}", err=True)


def _counts(run: Path) -> Json:
    from agentbench.core.reasons import InvalidCause, RunStatus
    from agentbench.record.run_directory import RunDirectory

    directory = RunDirectory.open(run)
    every = list(directory.records())
    records = [record for record in every if record.final]
    return {
        "run": run.name,
        "run_id": directory.run_id,
        "study_id": directory.study_id,
        "suite": str(directory.meta.get("suite", "")),
        "variant": str(directory.meta.get("variant", "")),
        "attempts": len(records),
        "passed": sum(record.result.passed for record in records),
        "invalid": sum(record.run_status is RunStatus.INVALID for record in records),
        "not_counted": sum(record.invalid_cause not in (None, InvalidCause.SAFETY) for record in records),
        "cost": round(sum(record.cost.total for record in every), 6),
        "cost_unit": records[0].cost.unit if records else None,
    }
