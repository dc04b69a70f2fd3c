"""The rules of monitors, kept once beside a run: decisions can then be made again by a version that has other rules.

rules/<sha256>.json       named by the digest that every manifest of the run holds
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from agentbench.core.canonical import canonical, digest
from agentbench.policy.monitors import RuleSet, parse_rules, published_document
from agentbench.record.attempt_folder import content
from agentbench.record.durable import failed, write_atomic

RULES = "rules"
MAX_BYTES = 4 << 20


def keep_rules(run: Path) -> None:
    """Keep the rules of this version, if the run does not have them yet.

    Raises:
        RecordError: they could not be written.
    """
    document = published_document()
    target = run / RULES / f"{digest(document).removeprefix('sha256:')}.json"
    if target.exists():
        return
    try:
        target.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise failed("create", target.parent, error) from error
    write_atomic(target, canonical(document) + b"\n")


def kept_rules(run: Path, name: str) -> RuleSet | None:
    """The rules of that digest as the run keeps them; None when it does not, or when they are not those.

    Raises:
        RecordError: the file cannot be read.
    """
    found = re.fullmatch(r"sha256:([0-9a-f]{64})", name)
    data = content(run / RULES / f"{found[1]}.json") if found else None
    if data is None or len(data) > MAX_BYTES:
        return None
    try:
        rules = parse_rules(data.decode())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, re.error):
        return None
    return rules if rules.digest == name else None


def named_by_content(path: Path) -> bool:
    """Whether a file is what its name says. Its rules are not compiled for that.

    Raises:
        RecordError: the file cannot be read.
    """
    data = content(path)
    if data is None or len(data) > MAX_BYTES:
        return False
    try:
        return path.name == f"{digest(json.loads(data)).removeprefix('sha256:')}.json"
    except (ValueError, TypeError, RecursionError):
        return False
