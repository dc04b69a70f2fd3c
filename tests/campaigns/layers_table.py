"""Write the tables of docs/explanation/layers.md from the rows of two campaigns: without and with references.

python -m tests.campaigns.redteam --sandbox bwrap --without-reference --ablate --json build/redteam/plain.json
python -m tests.campaigns.redteam --sandbox bwrap --ablate --json build/redteam/reference.json
python -m tests.campaigns.layers_table build/redteam/plain.json build/redteam/reference.json
"""

# ruff: noqa: T201 - a program for the terminal
from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.campaigns.layers import BASE, LAYERS, RESULTS, rules_of
from tests.campaigns.redteam import KINDS, Row, read_rows

SOURCES = Path(__file__).parents[2] / "src" / "agentbench" / "acceptance"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "layers.md"
DECOYS = "decoys"
LAYER_COLUMNS = tuple(name for name in LAYERS if name != DECOYS)
LAYER_HEAD, RULE_HEAD, CHEAT_HEAD = "| layer |", "| rule |", "| cheat |"
PASSES = "passes"


def alone(rows: Sequence[Row]) -> set[tuple[str, str]]:
    """Return cheats and the layers without which they pass, and only then."""
    stopped = {row.cheat for row in rows if not row.off and row.outcome != "PASS"}
    return {(row.cheat, row.off) for row in rows if row.off and row.outcome == "PASS" and row.cheat in stopped}


def cheats_table(plain: Sequence[Row], reference: Sequence[Row]) -> list[str]:
    """Return one line per cheat that does not just fail the tests of a task without a reference."""
    needed, needed_with_reference = alone(plain), alone(reference)
    with_reference = {row.cheat: row for row in reference if not row.off}
    used = {name for row in plain for name in row.caught_by} | {off for _, off in needed}
    columns = [name for name in LAYER_COLUMNS if name in used]
    lines = [f"{CHEAT_HEAD} {' | '.join(map(_title, columns))} | tests fail | with a reference |"]
    lines.append("|---" * (len(columns) + 3) + "|")
    for row in sorted(plain, key=lambda row: (row.outcome == "PASS", KINDS.index(row.kind), row.cheat)):
        if row.off or (row.caught_by == (RESULTS,) and not any(cheat == row.cheat for cheat, _ in needed)):
            continue
        passes = row.outcome == "PASS"
        cells = [
            "**A**" if (row.cheat, name) in needed else "+" if name in row.caught_by else ""
            for name in (*columns, RESULTS)
        ]
        graded = with_reference.get(row.cheat)
        only = [off for cheat, off in needed_with_reference if cheat == row.cheat]
        last = "not graded"
        if graded is not None and graded.outcome == "PASS":
            last = "PASS"
        elif graded is not None:
            last = DECOYS if DECOYS in graded.caught_by else "–"
            only += [DECOYS] if passes else []
        last = f"**{_title(only[0])}**" if only else last
        lines.append(f"|`{row.cheat}`{f' ({PASSES})' if passes else ''}|" + "|".join([*cells, last]) + "|")
    return lines


def layers_table(plain: Sequence[Row], reference: Sequence[Row]) -> list[str]:
    """Return how many cheats pass without each layer, and how many only fail the tests."""
    counts = [Counter(off for _, off in alone(rows)) for rows in (plain, reference)]
    # Without decoys, a task with a reference is one without.
    passing = {row.cheat for row in plain if not row.off and row.outcome == "PASS"}
    counts[1][DECOYS] = len(
        [row for row in reference if not row.off and row.cheat in passing and row.outcome == "fail"]
    )
    for count, rows in zip(counts, (plain, reference), strict=True):
        count[RESULTS] = len([row for row in rows if not row.off and row.caught_by == (RESULTS,)])
    lines = [f"{LAYER_HEAD} lines | alone, no reference | alone, with reference | purpose |", "|---|---|---|---|---|"]
    for name, layer in {**LAYERS, RESULTS: BASE}.items():
        files = [file for pattern in layer.sources for file in SOURCES.glob(pattern)]
        size = sum(len(file.read_bytes().splitlines()) for file in files)
        numbers = f"{size or 'part of others'} | {counts[0][name]} | {counts[1][name]}"
        lines.append(f"| {_title(name)} | {numbers} | {layer.purpose} |")
    return lines


def rules_table(plain: Sequence[Row]) -> list[str]:
    """Return the cheats that pass without one rule, because nothing else reported them."""
    needed = alone(plain)
    by_rule: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in plain:
        rules = rules_of(row.events, row.changed)
        if not row.off and len(rules) == 1 and len(row.caught_by) == 1 and (row.cheat, row.caught_by[0]) in needed:
            by_rule[_title(row.caught_by[0]), rules[0]].append(row.cheat)
    lines = [f"{RULE_HEAD} layer | the only one against |", "|---|---|---|"]
    for (layer, rule), cheats in sorted(by_rule.items()):
        shown = ", ".join(f"`{cheat}`" for cheat in cheats[:3])
        more = f" and {len(cheats) - 3} more" if len(cheats) > 3 else ""
        lines.append(f"| {rule} | {layer} | {shown}{more} |")
    return lines


def replace_table(page: str, table: Sequence[str]) -> str:
    """Return a page whose table with the same first cell is another."""
    lines = page.splitlines()
    head = table[0].split("|")[1]
    start = next(number for number, line in enumerate(lines) if line.split("|")[1:2] == [head])
    end = next((number for number in range(start, len(lines)) if not lines[number].startswith("|")), len(lines))
    return "\n".join([*lines[:start], *table, *lines[end:]]) + "\n"


def _title(layer: str) -> str:
    return layer.replace("_", " ")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("plain", type=Path, help="rows without references")
    parser.add_argument("reference", type=Path, help="rows with references")
    options = parser.parse_args()
    plain, reference = read_rows(options.plain), read_rows(options.reference)
    page = PAGE.read_text("utf-8")
    for table in (layers_table(plain, reference), rules_table(plain), cheats_table(plain, reference)):
        page = replace_table(page, table)
    PAGE.write_text(page, "utf-8")
    print(f"{PAGE}: {len([row for row in plain if not row.off])} cheats, {len(plain) + len(reference)} gradings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
