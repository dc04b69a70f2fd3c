"""Prices: a table from a CSV file, or the fallback schedule.

Costs are projected from the log and are not bills. A table has the columns `action_type, unit, unit_price, notes` and
optionally `model, direction`; other columns are ignored. The most specific row wins: first one that names or matches (`*`)
the model, then one that names the direction. Amounts are integers in micro-units: micro-dollars with a table, micro-units of
the schedule without one.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal, InvalidOperation
from typing import Literal, Protocol

from agentbench.contract.problem import did_you_mean
from agentbench.core.canonical import sha256_hex
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError

MICRO = 1_000_000

Direction = Literal["prompt", "completion", "cached"]
DIRECTIONS: tuple[Direction, ...] = ("prompt", "completion", "cached")

UNITS: Mapping[str, tuple[str, Decimal]] = {
    "token": ("token", Decimal(1)),
    "1k_tokens": ("token", Decimal(1000)),
    "1m_tokens": ("token", Decimal(MICRO)),
    "call": ("call", Decimal(1)),
    "request": ("call", Decimal(1)),
    "second": ("second", Decimal(1)),
    "minute": ("second", Decimal(60)),
    "hour": ("second", Decimal(3600)),
    "byte": ("byte", Decimal(1)),
    "megabyte": ("byte", Decimal(10**6)),
    "gigabyte": ("byte", Decimal(10**9)),
}
"""Unit of a row → the quantity that it counts, and how many of them make one unit."""

REVIEW = "review"
"""Action type of a person's time: operators' decisions and reviews."""

COUNTED: Mapping[str, tuple[str, ...]] = {
    "llm_request": ("token", "call"),
    "tool_call": ("call", "second"),
    "artifact_storage": ("byte",),
    REVIEW: ("second",),
}
"""Quantities that each action type is charged by."""
ACTION_TYPES = tuple(COUNTED)

_REQUIRED = ("action_type", "unit", "unit_price")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one request. `cached` is part of `prompt`; a table may price it separately."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class Prices(Protocol):
    """A way to project costs. Records name it by `method_id`."""

    @property
    def method_id(self) -> str: ...

    @property
    def unit(self) -> str:
        """Return `usd`, or `abstract` for the fallback schedule."""
        ...

    def request(self, model: str, tokens: Tokens) -> int:
        """Return the price of one model request in micro-units."""
        ...

    def tool_call(self, seconds: float) -> int: ...

    def storage(self, size: int) -> int: ...

    def review(self, seconds: float) -> int:
        """Return the price of a person's time."""
        ...


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row: the price of one token, call, second or byte (`counts`)."""

    action_type: str
    counts: str
    price: Decimal
    model: str = ""
    direction: str = ""
    line: int = 0

    def rank(self, model: str, direction: str) -> tuple[int, int, int] | None:
        """Return how specific the row is for this use, or None if it does not apply."""
        if self.direction and self.direction != direction:
            return None
        if not self.model:
            exact, length = 0, 0
        elif self.model == model:
            exact, length = 2, len(self.model)
        elif fnmatch.fnmatchcase(model, self.model):
            exact, length = 1, len(self.model.replace("*", ""))
        else:
            return None
        return (exact, length, 1 if self.direction else 0)


@dataclass(frozen=True, slots=True)
class PriceTable:
    """A parsed price table. `digest` is that of the file's bytes, which reports name."""

    rows: tuple[PriceRow, ...]
    digest: str
    unit: str = field(default="usd", init=False)

    @property
    def method_id(self) -> str:
        return f"prices@{self.digest}"

    def request(self, model: str, tokens: Tokens) -> int:
        cached = min(tokens.cached, tokens.prompt)
        # Without a price for cached tokens they cost as much as other prompt tokens.
        priced_cached = any(
            row.action_type == "llm_request" and row.direction == "cached" and row.rank(model, "cached")
            for row in self.rows
        )
        prompt = tokens.prompt - cached if priced_cached else tokens.prompt
        total = self._price("llm_request", "call", model)
        total += prompt * self._price("llm_request", "token", model, "prompt")
        total += tokens.completion * self._price("llm_request", "token", model, "completion")
        if priced_cached:
            total += cached * self._price("llm_request", "token", model, "cached")
        return _micro(total)

    def tool_call(self, seconds: float) -> int:
        fixed = self._price("tool_call", "call")
        return _micro(fixed + Decimal(repr(max(seconds, 0.0))) * self._price("tool_call", "second"))

    def storage(self, size: int) -> int:
        return _micro(size * self._price("artifact_storage", "byte"))

    def review(self, seconds: float) -> int:
        return _micro(Decimal(repr(max(seconds, 0.0))) * self._price(REVIEW, "second"))

    def knows(self, model: str) -> bool:
        """Return whether a row prices requests of this model."""
        return any(
            row.action_type == "llm_request" and row.rank(model, direction) is not None
            for row in self.rows
            for direction in DIRECTIONS
        )

    def _price(self, action: str, counts: str, model: str = "", direction: str = "") -> Decimal:
        best: tuple[tuple[int, int, int], Decimal] | None = None
        for row in self.rows:
            if row.action_type != action or row.counts != counts:
                continue
            rank = row.rank(model, direction)
            if rank is not None and (best is None or rank > best[0]):
                best = (rank, row.price)
        return best[1] if best else Decimal(0)


@dataclass(frozen=True, slots=True)
class FallbackSchedule:
    """Abstract units for runs without a price table.

    The coefficients are policy choices, not measurements. They are on the high side of what hosted models cost in dollars, so
    that a cap in dollars stops a run without a table early rather than late.
    """

    version: str = "1"
    per_request: int = 2_000
    per_response_token: int = 40
    per_tool_call: int = 100
    per_tool_second: int = 50
    per_megabyte: int = 10
    unit: str = field(default="abstract", init=False)

    @property
    def method_id(self) -> str:
        return f"fallback@{self.version}"

    def request(self, model: str, tokens: Tokens) -> int:
        return self.per_request + self.per_response_token * tokens.completion

    def tool_call(self, seconds: float) -> int:
        return self.per_tool_call + math.ceil(self.per_tool_second * max(seconds, 0.0))

    def storage(self, size: int) -> int:
        return math.ceil(self.per_megabyte * size / 10**6)

    def review(self, seconds: float) -> int:
        """Return 0: the schedule has no price for people's time, only a table can."""
        return 0


FALLBACKS: Mapping[str, FallbackSchedule] = {"1": FallbackSchedule()}
"""All schedules, so that old runs can be recomputed."""

FALLBACK = FALLBACKS["1"]


def parse_prices(data: bytes, name: str) -> PriceTable:
    """Parse a price table. Messages refer to the file as `name`.

    Raises:
        ContractError: the table is invalid; lists every problem with its line.
    """
    import csv  # noqa: PLC0415 - few runs have a table

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _invalid(name, [f"{name}: not UTF-8 at byte {error.start}"]) from None
    reader = csv.DictReader(text.splitlines(keepends=True), skipinitialspace=True)
    problems: list[str] = []
    rows: list[PriceRow] = []
    try:
        head = [column.strip() for column in reader.fieldnames or ()]
        reader.fieldnames = head
        missing = [column for column in _REQUIRED if column not in head]
        if missing:
            raise _invalid(
                name, [f"{name}:1: expected the columns {', '.join(_REQUIRED)}; missing: {', '.join(missing)}"]
            )
        for record in reader:
            line = reader.line_num
            row = _row({key: (value or "").strip() for key, value in record.items() if isinstance(key, str)}, line)
            if isinstance(row, PriceRow):
                rows.append(row)
            else:
                problems += [f"{name}:{line}: {problem}" for problem in row]
    except csv.Error as error:
        problems.append(f"{name}:{reader.line_num}: {error}")
    problems += _duplicates(rows, name)
    if not rows and not problems:
        problems.append(f"{name}: the table has no rows")
    if problems:
        raise _invalid(name, problems)
    return PriceTable(tuple(rows), "sha256:" + sha256_hex(data))


def _row(cells: Mapping[str, str], line: int) -> PriceRow | list[str]:
    problems = []
    action = cells["action_type"]
    if action not in ACTION_TYPES:
        hint = did_you_mean(action, ACTION_TYPES)
        problems.append(f"action_type: expected one of {', '.join(ACTION_TYPES)}, found {action!r}{hint}")
    unit = UNITS.get(cells["unit"].lower())
    if unit is None:
        problems.append(f"unit: expected one of {', '.join(UNITS)}, found {cells['unit']!r}")
    elif unit[0] not in COUNTED.get(action, unit):
        usable = [name for name, (counts, _) in UNITS.items() if counts in COUNTED[action]]
        problems.append(f"unit: expected one of {', '.join(usable)} for {action}, found {cells['unit']!r}")
    price = _number(cells["unit_price"])
    if price is None:
        problems.append(f"unit_price: expected a non-negative number, found {cells['unit_price']!r}")
    direction = cells.get("direction", "")
    if direction and direction not in DIRECTIONS:
        problems.append(f"direction: expected {', '.join(DIRECTIONS)} or nothing, found {direction!r}")
    if problems or unit is None or price is None:
        return problems
    counts, size = unit
    return PriceRow(action, counts, price / size, cells.get("model", ""), direction, line)


def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value < 10**12 else None


def _duplicates(rows: list[PriceRow], name: str) -> list[str]:
    """Report rows that price the same thing."""
    first: dict[tuple[str, str, str, str], int] = {}
    problems = []
    for row in rows:
        key = (row.action_type, row.counts, row.model, row.direction)
        if key in first:
            problems.append(f"{name}:{row.line}: duplicates line {first[key]}")
        first.setdefault(key, row.line)
    return problems


def _invalid(name: str, problems: list[str]) -> ContractError:
    return ContractError(f"invalid price table {name}", problems=tuple(problems))


def money(micro: int) -> str:
    """Format micro-units with two to four decimals, or six if the amount is small."""
    whole, decimals = f"{micro / MICRO:.{4 if micro >= MICRO // 100 else 6}f}".split(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"


def _micro(amount: Decimal) -> int:
    """Convert to micro-units, rounding up so that costs are never understated."""
    return math.ceil(amount * MICRO)
