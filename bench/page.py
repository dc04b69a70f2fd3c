"""The numbers of docs/reference/benchmarks.md, drawn from bench/results: nobody copies them by hand.

    python -m bench.page [--check]

Ours come from ours.json, the comparison from the newest peers-DATE.json. What stands between the page's marks is replaced.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "reference/benchmarks.md"
MARK = re.compile(r"(<!-- drawn: (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def drawn(text: str, results: Path = RESULTS) -> str:
    """The page with the numbers that lie in the results now."""
    parts = {"ours": lambda: ours(results / "ours.json"), "peers": lambda: peers(newest(results))}
    return MARK.sub(lambda found: found[1] + parts[found["name"]]() + found[3], text)


def newest(results: Path) -> Path:
    return max(results.glob("peers-*.json"))


def conditions(part: Mapping[str, Any]) -> str:
    machine, versions = part["machine"], part["machine"]["versions"]
    programs = ", ".join(
        f"{label} {versions[name]}"
        for label, name in (
            ("Python", "python"),
            ("bubblewrap", "bubblewrap"),
            ("docker engine", "docker_engine"),
            ("ripgrep", "ripgrep"),
        )
        if versions.get(name)
    )
    return (
        f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_mb'] // 1024} GB, {machine['system']}, "
        f"Linux {machine['kernel']}, {programs}; commit {versions['commit']}; "
        f"load {part['load_before'][0]:.1f} before, {part['load_after'][0]:.1f} after; {part['taken_at'][:16].replace('T', ' ')} UTC"
        + (f"; {part['remark']}" if "remark" in part else "")
    )


def ours(path: Path) -> str:
    whole = json.loads(path.read_text(encoding="utf-8"))
    return "\n" + "\n".join(line for name, part in whole["benches"].items() for line in bench(name, part)) + "\n"


def bench(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    yield f"### bench/{name}.py\n"
    yield f"{conditions(part)}.\n"
    yield "| | | p50 | p99 | wanted | |"
    yield "|---|---|---|---|---|---|"
    notes = []
    for one in part["results"]:
        if "note" in one:
            notes.append(f"{one['backend'] + ': ' if 'backend' in one else ''}{one['note']}")
            continue
        unit = one["unit"]
        middle, high = (one["p50"], one["p99"]) if "p50" in one else (one["value"], None)
        wanted = ", ".join(_bound(key, bound) for key, bound in one.get("wanted", {}).items())
        met = {True: "yes", False: "**no**", None: ""}[one.get("met")]
        cells = (
            one.get("backend", ""),
            one["name"].replace("  ", "– "),
            _number(middle, unit),
            _number(high, unit),
            wanted,
            met,
        )
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield from (f"- {note}" for note in notes)
    if notes:
        yield ""


def _bound(key: str, bound: float) -> str:
    return {"most": "≤ {}", "least": "≥ {}"}.get(key, key + " ≤ {}").format(f"{bound:g}")


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    text = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text} {unit}".strip()


def peers(path: Path) -> str:
    whole = json.loads(path.read_text(encoding="utf-8"))
    measured = whole["measured"]
    mine = measured["ours, docker"]
    lines = ["", f"{conditions(whole)}; docker compose {whole['machine']['docker_compose']}.", ""]
    lines += [
        "| | version | `true`, p50 / p99 ms | `cat`, p50 / p99 ms | attempt, 2 workers | attempt, 1 worker | grading, 2 workers |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    for name, one in measured.items():
        cells = [name, ", ".join(whole["versions"].get(name, []))]
        cells += [_calls(one, mine, call) for call in ("true", "cat")]
        cells += [
            _each(one, mine, kind, workers)
            for kind, workers in (("attempts", "2"), ("attempts", "1"), ("gradings", "2"))
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "In brackets: how many times as long as ours under docker.", ""]
    lines += [f"- {name}: {note}" for name, one in measured.items() for note in one["notes"]]
    lines += [f"- not measured: {name}: {why}" for name, why in whole["not_measured"].items()]
    lines += ["", "| wanted | | measured | |", "|---|---|---|---|"]
    for goal in whole["goals"]:
        met = {True: "yes", False: "**no**", None: ""}[goal["met"]]
        lines.append(f"| {goal['what']} | {goal['wanted']} | {goal['value']} | {met} |")
    return "\n".join([*lines, "", ""])


def _calls(one: Mapping[str, Any], mine: Mapping[str, Any], call: str) -> str:
    if call not in one["calls"]:
        return ""
    middle, high = one["calls"][call]["p50_ms"], one["calls"][call]["p99_ms"]
    return f"{middle:.1f} / {high:.1f} ({middle / mine['calls'][call]['p50_ms']:.1f}×)"


def _each(one: Mapping[str, Any], mine: Mapping[str, Any], kind: str, workers: str) -> str:
    if workers not in one[kind]:
        return ""
    value = one[kind][workers]["each_sec"]
    return f"{value:.3f} s ({value / mine[kind][workers]['each_sec']:.1f}×)"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="change nothing; exit 1 when the page is not up to date")
    asked = options.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    new = drawn(text)
    if asked.check and new != text:
        sys.exit(f"{PAGE} is not what the results say: python -m bench.page")
    if new != text:
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
