"""The ledger: what all workers together have spent, and what each request may still spend.

Accounts form a chain: attempt, task, run. A request is admitted only while every account has budget left,
counting requests in flight by their estimate, and its estimate is held until the real cost is known. As long as estimates are
not too low, only the last admitted request can exceed a cap, however many workers share it.

An attempt reserves the expected cost of its acceptance, which no request may spend. The reserve counts in every account of
the chain until the attempt is settled.

Estimates are high, so requests in flight may seem to use up a budget they will not use. A request then waits for others to be
settled; it is refused only because of what was really spent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal

from agentbench.core.dataclass import dataclass
from agentbench.core.reasons import TerminationCode
from agentbench.models.faults import BudgetReached
from agentbench.policy.prices import MICRO, money

Component = Literal["lm", "exec", "human", "overhead"]
"""Components of a cost: models, execution, people, everything else."""

Scope = Literal["attempt", "task", "run"]
COMPONENTS: tuple[Component, ...] = ("lm", "exec", "human", "overhead")
_NAMES: Mapping[Scope, str] = {
    "attempt": "the attempt's budget",
    "task": "the task's total budget (--task-usd)",
    "run": "the run's total budget (--total-usd)",
}

MAX_WAIT_SEC = 600.0
"""Longest time that a request waits for others to be settled."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Caps of one account. None means no cap."""

    micro: int | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, usd: float | None = None, tokens: int | None = None) -> Caps:
        return cls(None if usd is None else round(usd * MICRO), tokens)


@dataclass(frozen=True, slots=True)
class Amount:
    """Money in millionths of a dollar, and tokens."""

    micro: int = 0
    tokens: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.micro + other.micro, self.tokens + other.tokens)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.micro - other.micro, self.tokens - other.tokens)


@dataclass(frozen=True, slots=True)
class Statement:
    """The state of an account. `parts` is the spending by component."""

    scope: Scope
    spent: Amount
    held: Amount
    caps: Caps
    reserved: int = 0
    """Micro-units reserved for the acceptance of attempts that are not settled yet."""
    parts: Mapping[Component, int] = field(default_factory=dict)


class Account:
    """One set of caps, and what was spent against it. Created by a `Ledger`; safe to use from every thread."""

    def __init__(
        self, scope: Scope, caps: Caps, parent: Account | None, settled: threading.Condition, unit: str
    ) -> None:
        self.scope = scope
        self._unit = unit
        self._caps = caps
        self._parent = parent
        self._settled = settled
        self._spent, self._held = Amount(), Amount()
        self._reserved = self._own_reserve = 0
        self._parts: dict[Component, int] = dict.fromkeys(COMPONENTS, 0)
        self._refusal: BudgetReached | None = None
        """The first refusal for lack of budget. What is settled later may lower the sum again, by less than an attempt needs."""

    def admit(
        self, estimate: Amount, *, max_wait_sec: float = MAX_WAIT_SEC, cancelled: Callable[[], bool] = lambda: False
    ) -> Hold:
        """Admit one request, and hold its estimate until it is settled.

        Raises:
            BudgetReached: a cap is spent.
        """
        deadline = time.monotonic() + max_wait_sec
        with self._settled:
            while (hold := self._admit_now(estimate)) is None:
                left = deadline - time.monotonic()
                if left <= 0 or cancelled():
                    raise self._first_full(held=True) or AssertionError("an account that is full has a full cap")
                self._settled.wait(min(left, 0.5))
        return hold

    def admit_now(self, estimate: Amount) -> Hold | None:
        """Admit one request, or return None if it must wait for others to be settled.

        Raises:
            BudgetReached: a cap is spent.
        """
        with self._settled:
            return self._admit_now(estimate)

    def _admit_now(self, estimate: Amount) -> Hold | None:
        if self._first_full(held=True) is not None:
            spent = self._first_full(held=False)
            if spent is not None:
                raise spent
            return None
        for account in self._chain():
            account._held += estimate  # noqa: SLF001 - same class
        return Hold(self, estimate)

    def charge(self, component: Component, amount: Amount) -> None:
        """Book an amount already spent, even beyond the caps: a tool call, a check, a run that is resumed."""
        with self._settled:
            self._book(component, amount)

    def reserve(self, micro: int) -> None:
        """Reserve an amount for acceptance in every account of the chain, instead of what this account reserved before."""
        with self._settled:
            for account in self._chain():
                account._reserved += micro - self._own_reserve  # noqa: SLF001
            self._own_reserve = micro
            self._settled.notify_all()

    def used_up(self) -> BudgetReached | None:
        """Return the first spent cap of the chain. None if there is none, or if this account has spent nothing."""
        with self._settled:
            return self._first_full(held=False) if self._spent.micro else None

    def total_spent(self) -> BudgetReached | None:
        """Return the first spent cap over several attempts, with which another attempt must not start.

        None if nothing was spent: a cap of 0 does not stop attempts that are free.
        """
        with self._settled:
            shared = [account for account in self._chain() if account.scope != "attempt" and account._spent.micro]  # noqa: SLF001
            refusals = (account._refusal or account._full(held=False) for account in shared)  # noqa: SLF001
            return next((refusal for refusal in refusals if refusal is not None), None)

    def statement(self) -> Statement:
        with self._settled:
            return Statement(self.scope, self._spent, self._held, self._caps, self._reserved, dict(self._parts))

    def settle(self, held: Amount, component: Component, amount: Amount) -> None:
        with self._settled:
            for account in self._chain():
                account._held -= held  # noqa: SLF001
            self._book(component, amount)
            self._settled.notify_all()

    def _book(self, component: Component, amount: Amount) -> None:
        for account in self._chain():
            account._spent += amount  # noqa: SLF001
            account._parts[component] += amount.micro  # noqa: SLF001

    def _chain(self) -> tuple[Account, ...]:
        return (self,) if self._parent is None else (self, *self._parent._chain())  # noqa: SLF001

    def _first_full(self, *, held: bool) -> BudgetReached | None:
        """Return the first spent cap of the chain, with or without the requests in flight."""
        for account in self._chain():
            full = account._full(held=held)  # noqa: SLF001
            if full is not None:
                account._refusal = account._refusal or (None if held else full)  # noqa: SLF001
                return full
        return None

    def _full(self, *, held: bool) -> BudgetReached | None:
        caps, spent = self._caps, self._spent
        in_flight = self._held if held else Amount()
        if caps.micro is not None and spent.micro + in_flight.micro + self._reserved >= caps.micro:
            msg = (
                f"{_NAMES[self.scope]} is spent: {money(spent.micro)} of {money(caps.micro)} {self._unit} used, "
                f"{money(self._held.micro)} in flight, {money(self._reserved)} reserved for acceptance"
            )
            code = TerminationCode.COST_CAP if self.scope == "attempt" else TerminationCode.TOTAL_BUDGET
            return BudgetReached(msg, code=code, scope=self.scope)
        if caps.tokens is not None and spent.tokens + in_flight.tokens >= caps.tokens:
            msg = (
                f"the {self.scope}'s token budget is spent: {spent.tokens} of {caps.tokens} tokens used, "
                f"{self._held.tokens} in flight"
            )
            return BudgetReached(msg, code=TerminationCode.TOKEN_CAP, scope=self.scope)
        return None


class Hold:
    """The held estimate of a request in flight. It is settled once; further calls do nothing."""

    def __init__(self, account: Account, estimate: Amount) -> None:
        self._account = account
        self._estimate: Amount | None = estimate
        self._lock = threading.Lock()

    def settle(self, amount: Amount, component: Component = "lm") -> None:
        """Replace the estimate by the real amount."""
        with self._lock:
            estimate, self._estimate = self._estimate, None
        if estimate is not None:
            self._account.settle(estimate, component, amount)

    def release(self) -> None:
        """Settle with nothing spent."""
        self.settle(Amount())


class Ledger:
    """All accounts of one run, shared by its workers."""

    def __init__(self, caps: Caps | None = None, unit: str = "usd") -> None:
        self._settled = threading.Condition()
        self._unit = unit
        self.run = Account("run", caps or Caps(), None, self._settled, unit)
        self._tasks: dict[str, Account] = {}

    def task(self, task_id: str, caps: Caps | None = None) -> Account:
        """Return the account of a task. `caps` apply only when it is first requested."""
        with self._settled:
            if task_id not in self._tasks:
                self._tasks[task_id] = Account("task", caps or Caps(), self.run, self._settled, self._unit)
            return self._tasks[task_id]

    def attempt(self, task_id: str, caps: Caps | None = None, *, task_caps: Caps | None = None) -> Account:
        """Open an account for one attempt."""
        return Account("attempt", caps or Caps(), self.task(task_id, task_caps), self._settled, self._unit)
