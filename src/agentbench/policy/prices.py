"""What things cost: a table of prices, or the fallback schedule where there is none.

Projected cost, never a bill: it is computed from what the log holds, so that anybody computes the same. A table is CSV with
`action_type, unit, unit_price, notes` and optionally `model, direction`; other columns are kept for people. The most specific
row wins: a row that names the model (or matches it by `*`) before one that does not, then one that names the direction.
Money is counted in whole micro-units: micro-dollars under a table, micro-units of the schedule without one.
"""

from __future__ import annotations

import csv
import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Literal, Protocol

from agentbench.core.canonical import sha256_hex
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
    "gigabyte-day": ("byte-day", Decimal(10**9)),
}
"""Unit of a row -> what it counts, and how much of it one unit is."""

_REQUIRED = ("action_type", "unit", "unit_price")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens of one request. `cached` are part of `prompt` and priced apart where the table does."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class Prices(Protocol):
    """A way to project cost. `method_id` says which, in every record."""

    @property
    def method_id(self) -> str: ...

    @property
    def unit(self) -> str:
        """`usd`, or `abstract` under the fallback schedule."""
        ...

    def request(self, model: str, tokens: Tokens) -> int:
        """Micro-units of one model request."""
        ...

    def tool_call(self, seconds: float) -> int: ...

    def storage(self, size: int, days: float) -> int: ...


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row: the price of one `counts` (token, call, second, byte, byte-day) in units of money."""

    action_type: str
    counts: str
    price: Decimal
    model: str = ""
    direction: str = ""
    line: int = 0

    def rank(self, model: str, direction: str) -> tuple[int, int, int] | None:
        """How specific the row is for this use; None when it does not apply."""
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
    """A table as read by `parse_prices`. `digest` is that of the file's bytes: it is what a report names."""

    rows: tuple[PriceRow, ...]
    digest: str
    unit: str = field(default="usd", init=False)

    @property
    def method_id(self) -> str:
        return f"prices@{self.digest}"

    def request(self, model: str, tokens: Tokens) -> int:
        cached = min(tokens.cached, tokens.prompt)
        # Where the table has no price for what came from a cache, it costs what other prompt tokens cost.
        apart = any(
            row.action_type == "llm_request" and row.direction == "cached" and row.rank(model, "cached")
            for row in self.rows
        )
        prompt = tokens.prompt - cached if apart else tokens.prompt
        total = self._price("llm_request", "call", model)
        total += prompt * self._price("llm_request", "token", model, "prompt")
        total += tokens.completion * self._price("llm_request", "token", model, "completion")
        if apart:
            total += cached * self._price("llm_request", "token", model, "cached")
        return _micro(total)

    def tool_call(self, seconds: float) -> int:
        fixed = self._price("tool_call", "call")
        return _micro(fixed + Decimal(repr(max(seconds, 0.0))) * self._price("tool_call", "second"))

    def storage(self, size: int, days: float) -> int:
        lasting = Decimal(repr(max(days, 0.0))) * self._price("artifact_storage", "byte-day")
        return _micro(size * (self._price("artifact_storage", "byte") + lasting))

    def knows(self, model: str) -> bool:
        """Whether some row prices requests of this model."""
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
    """Abstract units for runs without a table: they depend on the trace alone and stay the same within a study.

    The coefficients are policy, not measurement. They are on the high side of what hosted models cost in dollars, so that a
    cap given in dollars stops a run without a table early rather than late.
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

    def storage(self, size: int, days: float) -> int:
        return math.ceil(self.per_megabyte * size / 10**6)


FALLBACKS: Mapping[str, FallbackSchedule] = {"1": FallbackSchedule()}
"""Every schedule there ever was: an old study can be computed again."""

FALLBACK = FALLBACKS["1"]


def parse_prices(data: bytes, name: str) -> PriceTable:
    """Read a table. `name` is how messages call the file.

    Raises:
        ContractError: with every problem, its line and what was expected.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(name, [f"{name}: not UTF-8 at byte {error.start}"]) from None
    reader = csv.DictReader(text.splitlines(keepends=True), skipinitialspace=True)
    problems: list[str] = []
    rows: list[PriceRow] = []
    try:
        head = [column.strip() for column in reader.fieldnames or ()]
        reader.fieldnames = head
        missing = [column for column in _REQUIRED if column not in head]
        if missing:
            raise _refused(
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
    problems += _doubles(rows, name)
    if not rows and not problems:
        problems.append(f"{name}: no price in it")
    if problems:
        raise _refused(name, problems)
    return PriceTable(tuple(rows), "sha256:" + sha256_hex(data))


def _row(cells: Mapping[str, str], line: int) -> PriceRow | list[str]:
    problems = []
    if not cells["action_type"]:
        problems.append("action_type: expected a word such as llm_request, tool_call, artifact_storage")
    unit = UNITS.get(cells["unit"].lower())
    if unit is None:
        problems.append(f"unit: expected one of {', '.join(UNITS)}, found {cells['unit']!r}")
    price = _number(cells["unit_price"])
    if price is None:
        problems.append(f"unit_price: expected a number that is not negative, found {cells['unit_price']!r}")
    direction = cells.get("direction", "")
    if direction and direction not in DIRECTIONS:
        problems.append(f"direction: expected {', '.join(DIRECTIONS)} or nothing, found {direction!r}")
    if problems or unit is None or price is None:
        return problems
    counts, size = unit
    return PriceRow(cells["action_type"], counts, price / size, cells.get("model", ""), direction, line)


def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value < 10**12 else None


def _doubles(rows: list[PriceRow], name: str) -> list[str]:
    """Two rows for the same thing: which of them holds would hang on their order."""
    first: dict[tuple[str, str, str, str], int] = {}
    problems = []
    for row in rows:
        key = (row.action_type, row.counts, row.model, row.direction)
        if key in first:
            problems.append(f"{name}:{row.line}: the same thing is priced in line {first[key]}")
        first.setdefault(key, row.line)
    return problems


def _refused(name: str, problems: list[str]) -> ContractError:
    return ContractError(f"the price table {name} cannot be used", problems=tuple(problems))


def _micro(money: Decimal) -> int:
    """Upwards: what is spent is never counted as less."""
    return math.ceil(money * MICRO)
