from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.conditions import machine
from bench.report import Report, open_report, quantile
from bench.trivial import Memory


def results(path: Path, bench: str) -> list[dict[str, object]]:
    return json.loads(path.read_text(encoding="utf-8"))["benches"][bench]["results"]  # type: ignore[no-any-return]


def test_bench_replaces_only_its_own_part_of_the_results_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "results.json"
    for bench, value in (("one", 1.0), ("two", 2.0), ("one", 3.0)):
        with open_report(bench, path) as report:
            report.value("speed", value, "s")
    assert results(path, "one") == [{"name": "speed", "unit": "s", "value": 3.0}]
    assert results(path, "two") == [{"name": "speed", "unit": "s", "value": 2.0}]


def test_failed_bench_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.json"

    def fails() -> None:
        with open_report("one", path) as report:
            report.value("speed", 1, "s")
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        fails()
    assert not path.exists()


def test_results_record_machine_load_and_remark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    monkeypatch.setenv("AB_BENCH_REMARK", "at night")
    with open_report("one", path) as report:
        report.note("nothing")
    part = json.loads(path.read_text(encoding="utf-8"))["benches"]["one"]
    assert {"taken_at", "machine", "load_before", "load_after", "results"} <= part.keys()
    assert part["remark"] == "at night"
    assert {"cpu", "cores", "memory_mb", "kernel", "versions"} <= part["machine"].keys()
    assert {"agentbench", "python", "bubblewrap", "docker_engine"} <= machine()["versions"].keys()  # type: ignore[attr-defined]


@pytest.mark.parametrize("value, met", [(4.0, True), (4.1, False)])
def test_missed_goal_is_recorded_as_missed(value: float, met: bool) -> None:
    report = Report("one")
    report.times("call", [1.0, value, 9.0], goals={"p50": 4.0})
    report.value("size", value, "MB", most=4.0)
    report.value("rate", -value, "/s", least=-4.0)
    assert [result["met"] for result in report.results] == [met, met, met]


def test_missed_p99_goal_is_recorded_as_missed() -> None:
    report = Report("one")
    report.times("call", [1.0] * 97 + [50.0] * 3, goals={"p50": 4.0, "p99": 15.0})
    assert report.results[0]["met"] is False


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_quantile_is_not_exceeded_by_its_share_of_values(values: list[float], share: float) -> None:
    result = quantile(values, share)
    assert result in values
    assert sum(value <= result for value in values) >= share * len(values) or result == max(values)


def test_growth_compares_last_tenth_with_second_tenth() -> None:
    assert Memory([10.0] * 5).growth is None
    # The first tenth is start-up and does not count.
    assert Memory([1.0] * 10 + [50.0] * 80 + [53.0] * 10).growth == 3.0
