from __future__ import annotations

import json
from pathlib import Path

from bench.page import PAGE, RESULTS, render

MACHINE = {
    "cpu": "cpu",
    "cores": 2,
    "memory_mb": 2048,
    "kernel": "6",
    "system": "Linux",
    "versions": {"python": "3.11", "commit": "abc"},
}
TAKEN = {"taken_at": "2026-01-01T00:00:00+00:00", "machine": MACHINE, "load_before": [0.1], "load_after": [0.2]}
MARKED_PAGE = "before\n<!-- drawn: ours -->\nold\n<!-- end -->\nafter\n"


def page(tmp_path: Path, *results: dict[str, object]) -> str:
    whole = {"benches": {"calls": {**TAKEN, "results": list(results)}}}
    (tmp_path / "ours.json").write_text(json.dumps(whole), encoding="utf-8")
    return render(MARKED_PAGE, tmp_path)


def test_page_matches_recorded_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert render(text, RESULTS) == text, "out of date; run `python -m bench.page`"


def test_missed_goal_is_marked_on_the_page(tmp_path: Path) -> None:
    missed = {
        "name": "x",
        "backend": "docker",
        "unit": "ms",
        "p50": 5.0,
        "p99": 9.25,
        "wanted": {"p50": 4},
        "met": False,
    }
    text = page(tmp_path, missed, {"note": "remark"})
    assert "| docker | x | 5 ms | 9.25 ms | p50 ≤ 4 | **no** |" in text
    assert "- remark\n" in text


def test_rendering_keeps_surrounding_text_and_is_idempotent(tmp_path: Path) -> None:
    text = page(tmp_path, {"name": "x", "unit": "s", "value": 0.1234})
    assert text.startswith("before\n<!-- drawn: ours -->\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "old" not in text
    assert "| 0.123 s |" in text
    assert render(text, tmp_path) == text
