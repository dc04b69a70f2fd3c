"""Render the tables of docs/reference/benchmarks.md from bench/results.

    python -m bench.page [--check]

Our numbers come from ours.json, the comparison from the newest peers-DATE.json. Replaces the text between the page's markers.
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
MARKER = re.compile(r"(<!-- drawn: (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(text: str, results: Path = RESULTS) -> str:
    """Return the page with the numbers of the current results."""
    parts = {"ours": lambda: ours(results / "ours.json"), "peers": lambda: peers(newest(results))}
    return MARKER.sub(lambda match: match[1] + parts[match["name"]]() + match[3], text)


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
    yield "| | | p50 | p99 | goal | |"
    yield "|---|---|---|---|---|---|"
    notes = []
    for result in part["results"]:
        if "note" in result:
            notes.append(f"{result['backend'] + ': ' if 'backend' in result else ''}{result['note']}")
            continue
        unit = result["unit"]
        middle, high = (result["p50"], result["p99"]) if "p50" in result else (result["value"], None)
        wanted = ", ".join(_bound(key, bound) for key, bound in result.get("wanted", {}).items())
        met = {True: "yes", False: "**no**", None: ""}[result.get("met")]
        cells = (
            result.get("backend", ""),
            result["name"].replace("  ", "– "),
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
    for name, numbers in measured.items():
        cells = [name, ", ".join(whole["versions"].get(name, []))]
        cells += [_calls(numbers, mine, call) for call in ("true", "cat")]
        cells += [
            _each(numbers, mine, kind, workers)
            for kind, workers in (("attempts", "2"), ("attempts", "1"), ("gradings", "2"))
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "In brackets: time relative to AgentBench in Docker.", ""]
    lines += [f"- {name}: {note}" for name, numbers in measured.items() for note in numbers["notes"]]
    lines += [f"- not measured: {name}: {reason}" for name, reason in whole["not_measured"].items()]
    lines += ["", "| goal | | measured | |", "|---|---|---|---|"]
    for goal in whole["goals"]:
        met = {True: "yes", False: "**no**", None: ""}[goal["met"]]
        lines.append(f"| {goal['what']} | {goal['wanted']} | {goal['value']} | {met} |")
    return "\n".join([*lines, "", ""])


def _calls(numbers: Mapping[str, Any], mine: Mapping[str, Any], call: str) -> str:
    if call not in numbers["calls"]:
        return ""
    middle, high = numbers["calls"][call]["p50_ms"], numbers["calls"][call]["p99_ms"]
    return f"{middle:.1f} / {high:.1f} ({middle / mine['calls'][call]['p50_ms']:.1f}×)"


def _each(numbers: Mapping[str, Any], mine: Mapping[str, Any], kind: str, workers: str) -> str:
    if workers not in numbers[kind]:
        return ""
    value = numbers[kind][workers]["each_sec"]
    return f"{value:.3f} s ({value / mine[kind][workers]['each_sec']:.1f}×)"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="change nothing; exit 1 if the page is out of date")
    arguments = options.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    new = render(text)
    if arguments.check and new != text:
        sys.exit(f"{PAGE} is out of date; run `python -m bench.page`")
    if new != text:
        PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
