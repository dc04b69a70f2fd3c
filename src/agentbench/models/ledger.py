"""The ledger: what all workers together have spent, and what each request may still spend.

Accounts form a chain: attempt ("run"), task, total. A request is admitted only while something is left of every one of them,
counting what is in flight by its estimate; then its estimate is held until the real cost is known. As long as estimates are
not too low, the last request admitted is all that can go beyond a cap, however many workers share it.

Estimates are high, so what is in flight may seem to use up what it will not: then a request waits for others to be settled.
It is refused only for what was really spent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentbench.core.reasons import TerminationCode
from agentbench.models.faults import BudgetReached
from agentbench.policy.prices import MICRO
from agentbench.policy.thresholds import published_thresholds

Component = Literal["lm", "exec", "human", "overhead"]
"""The parts of a cost (M-06): models, execution, people, everything else."""

COMPONENTS: tuple[Component, ...] = ("lm", "exec", "human", "overhead")
HEADROOM_PPM = published_thresholds().headroom_percent * 10_000
"""Share of a cap on cost that requests may not touch: it is for acceptance and logging (M-07)."""

PATIENCE_SEC = 600.0
"""How long a request waits for others to be settled."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps of one account; None where there is none."""

    micro: int | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, usd: float | None = None, tokens: int | None = None) -> Caps:
        return cls(None if usd is None else round(usd * MICRO), tokens)


@dataclass(frozen=True, slots=True)
class Amount:
    """Money in micro-units, and tokens."""

    micro: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Sum:
    micro: int = 0
    tokens: int = 0

    def add(self, amount: Amount, sign: int = 1) -> None:
        self.micro += sign * amount.micro
        self.tokens += sign * amount.tokens


@dataclass(frozen=True, slots=True)
class Statement:
    """An account as it stands. `parts` are micro-units per component."""

    scope: str
    spent: Amount
    held: Amount
    caps: Caps
    parts: Mapping[Component, int] = field(default_factory=dict)


class Account:
    """One cap and what went against it. Made by a `Ledger`; safe to use from every thread."""

    def __init__(self, scope: str, caps: Caps, parent: Account | None, settled: threading.Condition) -> None:
        self.scope = scope
        self._caps = caps
        self._parent = parent
        self._settled = settled
        self._spent, self._held = _Sum(), _Sum()
        self._parts: dict[Component, int] = dict.fromkeys(COMPONENTS, 0)

    def admit(
        self, estimate: Amount, *, patience_sec: float = PATIENCE_SEC, cancelled: Callable[[], bool] = lambda: False
    ) -> Hold:
        """Let one request pass, and hold its estimate until it is settled.

        Raises:
            BudgetReached: nothing is left of a cap; names whose.
        """
        deadline = time.monotonic() + patience_sec
        with self._settled:
            while (full := self._first_full(held=True)) is not None:
                spent = self._first_full(held=False)
                left = deadline - time.monotonic()
                if spent is not None or left <= 0 or cancelled():
                    raise spent or full
                self._settled.wait(min(left, 0.5))
            for account in self._chain():
                account._held.add(estimate)  # noqa: SLF001 - one of us
        return Hold(self, estimate)

    def charge(self, component: Component, amount: Amount) -> None:
        """Book what was spent already, whatever is left: a tool call, a check, an earlier run that is resumed."""
        with self._settled:
            self._book(component, amount)

    def used_up(self) -> BudgetReached | None:
        """The first cap, the attempt's own or one that it shares, of which nothing is left; None also while nothing was spent."""
        with self._settled:
            return self._first_full(held=False) if self._spent.micro else None

    def statement(self) -> Statement:
        with self._settled:
            spent, held = self._spent, self._held
            return Statement(
                self.scope,
                Amount(spent.micro, spent.tokens),
                Amount(held.micro, held.tokens),
                self._caps,
                dict(self._parts),
            )

    def settle(self, held: Amount, component: Component, amount: Amount) -> None:
        with self._settled:
            for account in self._chain():
                account._held.add(held, -1)  # noqa: SLF001
            self._book(component, amount)
            self._settled.notify_all()

    def _book(self, component: Component, amount: Amount) -> None:
        for account in self._chain():
            account._spent.add(amount)  # noqa: SLF001
            account._parts[component] += amount.micro  # noqa: SLF001

    def _chain(self) -> tuple[Account, ...]:
        return (self,) if self._parent is None else (self, *self._parent._chain())  # noqa: SLF001

    def _first_full(self, *, held: bool) -> BudgetReached | None:
        """The first cap of the chain of which nothing is left, counting what is in flight or not."""
        return next((full for account in self._chain() if (full := account._full(held=held))), None)  # noqa: SLF001

    def _full(self, *, held: bool) -> BudgetReached | None:
        caps, spent = self._caps, self._spent
        flying = self._held if held else _Sum()
        if caps.micro is not None:
            limit = caps.micro - caps.micro * HEADROOM_PPM // MICRO
            if spent.micro + flying.micro >= limit:
                msg = (
                    f"the budget of this {self.scope} is used up: {_money(spent.micro)} of {_money(caps.micro)} spent, "
                    f"{_money(self._held.micro)} in flight, {_money(caps.micro - limit)} kept for acceptance"
                )
                return BudgetReached(msg, code=TerminationCode.COST_CAP, scope=self.scope)
        if caps.tokens is not None and spent.tokens + flying.tokens >= caps.tokens:
            msg = (
                f"the tokens of this {self.scope} are used up: {spent.tokens} of {caps.tokens}, "
                f"{self._held.tokens} in flight"
            )
            return BudgetReached(msg, code=TerminationCode.TOKEN_CAP, scope=self.scope)
        return None


class Hold:
    """One request in flight. Settled exactly once; further calls change nothing."""

    def __init__(self, account: Account, estimate: Amount) -> None:
        self._account = account
        self._estimate: Amount | None = estimate
        self._lock = threading.Lock()

    def settle(self, amount: Amount, component: Component = "lm") -> None:
        """Replace the estimate by what it really was."""
        with self._lock:
            estimate, self._estimate = self._estimate, None
        if estimate is not None:
            self._account.settle(estimate, component, amount)

    def release(self) -> None:
        """Nothing was spent."""
        self.settle(Amount())


class Ledger:
    """All accounts of one study; shared by its workers."""

    def __init__(self, total: Caps | None = None) -> None:
        self._settled = threading.Condition()
        self.total = Account("total", total or Caps(), None, self._settled)
        self._tasks: dict[str, Account] = {}

    def task(self, task_id: str, caps: Caps | None = None) -> Account:
        """The account of a task; `caps` count when it is asked for first."""
        with self._settled:
            if task_id not in self._tasks:
                self._tasks[task_id] = Account("task", caps or Caps(), self.total, self._settled)
            return self._tasks[task_id]

    def attempt(self, task_id: str, caps: Caps | None = None, *, task_caps: Caps | None = None) -> Account:
        """A new account for one attempt ("run" in the protocol's words)."""
        return Account("run", caps or Caps(), self.task(task_id, task_caps), self._settled)


def _money(micro: int) -> str:
    return f"{micro / MICRO:.4f}"
