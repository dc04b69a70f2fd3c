"""Stores monitor rules in the run directory, so that versions with other rules can recompute its decisions.

The file is `rules/<sha256>.json`; every manifest of the run contains the digest.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from agentbench.core.canonical import canonical, digest, sha256_hex
from agentbench.core.errors import RecordError
from agentbench.policy.monitor_rules import RuleSet, parse_rules, published_document
from agentbench.record.attempt_folder import content
from agentbench.record.durable import write_atomic

RULES = "rules"
MAX_BYTES = 4 << 20


def keep_rules(run: Path) -> None:
    """Store the rules of this version, unless the run has them already.

    Raises:
        RecordError: the file cannot be written.
    """
    name, data = _published()
    target = run / RULES / name
    if target.exists():
        return
    try:
        target.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise RecordError.of("create", target.parent, error) from error
    write_atomic(target, data)


@cache
def _published() -> tuple[str, bytes]:
    """Return name and content of the file with the rules of this version."""
    document = published_document()
    return f"{digest(document).removeprefix('sha256:')}.json", canonical(document) + b"\n"


def kept_rules(run: Path, name: str) -> RuleSet | None:
    """Return the stored rules with this digest; None if missing, or if the content does not match.

    Raises:
        RecordError: the file cannot be read.
    """
    match = re.fullmatch(r"sha256:([0-9a-f]{64})", name)
    data = content(run / RULES / f"{match[1]}.json") if match else None
    if data is None or len(data) > MAX_BYTES:
        return None
    try:
        rules = parse_rules(data.decode())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, re.error):
        return None
    return rules if rules.digest == name else None


def is_rule_file(path: Path) -> bool:
    """Return whether a file is named like stored rules."""
    return re.fullmatch(r"[0-9a-f]{64}\.json", path.name) is not None


def name_matches_content(path: Path) -> bool:
    """Return whether a rule file has the bytes that were written: its name is the digest of all but the final newline.

    Raises:
        RecordError: the file cannot be read.
    """
    data = content(path)
    if data is None or len(data) > MAX_BYTES or not data.endswith(b"\n"):
        return False
    return path.name == f"{sha256_hex(data[:-1])}.json"
