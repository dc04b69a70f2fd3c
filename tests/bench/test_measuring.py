from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conditions import machine
from bench.measuring import Report, quantile, reporting
from bench.trivial import Memory


def results(path: Path, bench: str) -> list[dict[str, object]]:
    return json.loads(path.read_text(encoding="utf-8"))["benches"][bench]["results"]  # type: ignore[no-any-return]


def test_a_bench_replaces_its_own_part_of_a_file_and_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    for bench, value in (("one", 1.0), ("two", 2.0), ("one", 3.0)):
        with reporting(bench, path) as report:
            report.value("speed", value, "s")
    assert results(path, "one") == [{"name": "speed", "unit": "s", "value": 3.0}]
    assert results(path, "two") == [{"name": "speed", "unit": "s", "value": 2.0}]


def test_a_bench_that_fails_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.json"

    def fails() -> None:
        with reporting("one", path) as report:
            report.value("speed", 1, "s")
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        fails()
    assert not path.exists()


def test_results_say_on_what_and_under_which_load_they_were_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    monkeypatch.setenv("AB_BENCH_REMARK", "at night")
    with reporting("one", path) as report:
        report.note("nothing")
    part = json.loads(path.read_text(encoding="utf-8"))["benches"]["one"]
    assert {"taken_at", "machine", "load_before", "load_after", "results"} <= part.keys()
    assert part["remark"] == "at night"
    assert {"cpu", "cores", "memory_mb", "kernel", "versions"} <= part["machine"].keys()
    assert {"agentbench", "python", "bubblewrap", "docker_engine"} <= machine()["versions"].keys()  # type: ignore[attr-defined]


@pytest.mark.parametrize("value, met", [(4.0, True), (4.1, False)])
def test_a_goal_that_is_missed_is_kept_as_missed(value: float, met: bool) -> None:
    report = Report("one")
    report.times("call", [1.0, value, 9.0], goals={"p50": 4.0})
    report.value("size", value, "MB", most=4.0)
    report.value("rate", -value, "/s", least=-4.0)
    assert [one["met"] for one in report.found] == [met, met, met]


def test_p99_counts_not_only_the_middle() -> None:
    report = Report("one")
    report.times("call", [1.0] * 97 + [50.0] * 3, goals={"p50": 4.0, "p99": 15.0})
    assert report.found[0]["met"] is False


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_quantile_is_a_value_that_the_share_does_not_exceed(values: list[float], share: float) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(one <= found for one in values) >= share * len(values) or found == max(values)


def test_growth_compares_the_last_tenth_with_the_second() -> None:
    assert Memory([10.0] * 5).growth is None
    # The first tenth is start-up and does not count.
    assert Memory([1.0] * 10 + [50.0] * 80 + [53.0] * 10).growth == 3.0
