"""Retention policies: how long runs keep full evidence, by suite and variant. A policy decides; `retention.py` deletes.

full_days: 90                              # for runs that no rule matches
rules:                                     # the first that matches decides
  - {suite: "release-*", full_days: 730}
  - {variant: baseline, keep: full}        # never reduced
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from agentbench.contract.schema_problems import validate_document
from agentbench.contract.yaml_document import read_document
from agentbench.core.canonical import Json
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import ContractError
from agentbench.record.attempt_folder import hash_file

MAX_DAYS = 36_500
EXAMPLE = "{full_days: 90, rules: [{suite: 'release-*', keep: full}]}"


class RetentionRule(BaseModel):
    """The time for which runs of a suite and a variant keep full evidence. `*` in names matches anything."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    suite: str = "*"
    variant: str = "*"
    full_days: int | None = Field(default=None, ge=0, le=MAX_DAYS)
    keep: Literal["full"] | None = None

    @model_validator(mode="after")
    def _one_decision(self) -> Self:
        if (self.full_days is None) == (self.keep is None):
            raise ValueError("expected either full_days or keep: full")
        return self

    def matches(self, suite: str, variant: str) -> bool:
        return fnmatchcase(suite, self.suite) and fnmatchcase(variant, self.variant)


class RetentionPolicy(BaseModel):
    """`retention.yaml`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    full_days: int = Field(ge=0, le=MAX_DAYS)
    rules: tuple[RetentionRule, ...] = ()


@dataclass(frozen=True, slots=True)
class RetentionDecision:
    """The decision of a policy about one run."""

    reduce: bool
    why: str


def read_policy(path: Path) -> tuple[RetentionPolicy, str]:
    """Read a policy, and return it with the name and digest under which approvals refer to it.

    Raises:
        ContractError: the file cannot be read or is invalid.
    """
    validated = validate_document(read_document(path), RetentionPolicy)
    if validated.problems or validated.model is None:
        problems = tuple(map(str, validated.problems))
        raise ContractError(f"{path} is not a retention policy", problems=problems, remedy=f"example: {EXAMPLE}")
    return validated.model, f"{path.name} sha256:{hash_file(path)[0]}"


def decide_retention(
    policy: RetentionPolicy, meta: Mapping[str, Json], closed_at: datetime, now: datetime
) -> RetentionDecision:
    """Decide whether a run that was closed at this time may lose its bulky evidence now."""
    suite, variant = str(meta.get("suite", "")), str(meta.get("variant", ""))
    rule = next((rule for rule in policy.rules if rule.matches(suite, variant)), None)
    if rule is not None and rule.keep:
        return RetentionDecision(reduce=False, why="a rule says keep: full")
    days = policy.full_days if rule is None or rule.full_days is None else rule.full_days
    until = closed_at + timedelta(days=days)
    tier = f"full for {days} days"
    if now < until:
        return RetentionDecision(reduce=False, why=f"{tier}, until {until.date()}")
    return RetentionDecision(reduce=True, why=f"{tier}, until {until.date()}, then minimal")
