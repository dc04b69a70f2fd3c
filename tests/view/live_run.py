"""A run with many attempts under way, written event by event as `ab run` does."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from agentbench.core.ids import now_iso
from agentbench.trace.events import AttemptBegun, AttemptSealed, RunOpened, ToolCallStarted
from agentbench.trace.log import EventLog


class LiveRun:
    """Holds the lock of the run, so that it counts as running until the block ends."""

    def __init__(self, folder: Path, attempts: int, *, planned: int | None = None, cap: float | None = None) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        order = [[f"task-{number}", "quick", 1] for number in range(planned or attempts)]
        meta = {"run_id": "01R", "study_id": "01LIVE", "suite": "demo", "variant": "quick", "created_at": now_iso()}
        meta |= {"order": order, "request": {"total_usd": cap}}  # type: ignore[dict-item]
        (folder / "run.json").write_text(json.dumps(meta), encoding="utf-8")
        (folder / "attempts.jsonl").touch()
        self._open = ExitStack()
        self.chain = self._open.enter_context(EventLog.create(folder / "events.jsonl"))
        self.chain.append(
            RunOpened(
                run_id="01R", study_id="01LIVE", suite="demo", variant="quick", harness_version="0",
                run_json_sha256="0" * 64, nonce="n",
            )
        )  # fmt: skip
        self.logs: list[EventLog] = []
        for number in range(attempts):
            task_dir = f"tasks/{number:03}"
            (folder / task_dir).mkdir(parents=True)
            begun = AttemptBegun(
                attempt_id=f"A{number:03}",
                task_id=f"task-{number}",
                repeat=1 + number % 2,
                attempt=1,
                task_dir=task_dir,
            )
            self.chain.append(begun)
            self.logs.append(self._open.enter_context(EventLog.create(folder / task_dir / "events.jsonl")))

    def step(self, number: int, words: str) -> int:
        """Write one event of an attempt and return its number."""
        call = ToolCallStarted(call_id=f"c{self.logs[number].count}", tool="run", arguments={"command": words})
        return self.logs[number].append(call, "agent")

    def seal(self, number: int) -> None:
        """End an attempt."""
        log = self.logs[number]
        sealed = AttemptSealed(
            attempt_id=f"A{number:03}", task_dir=f"tasks/{number:03}", events=log.count, head=log.head,
            record_sha256="0" * 64, files_sha256="0" * 64,
        )  # fmt: skip
        self.chain.append(sealed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()
