"""Constraining dependencies to the releases before a moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.authoring.environment.release_dates import (
    ReleaseDates,
    cutoff_for,
    in_utc,
    order_of,
    read_releases,
    with_constraints,
)
from agentbench.core.package_settings import PackageSettings
from agentbench.workspace.source.package_index import ProjectFiles, Release
from tests.authoring.package_index import PackageIndex

pytestmark = [pytest.mark.req("C-17", "C-18"), pytest.mark.component]


def release_dates(index: PackageIndex) -> ReleaseDates:
    return ReleaseDates(ProjectFiles(PackageSettings(single={"index-url": index.url})))


def test_project_is_constrained_to_the_newest_version_of_a_day(index: PackageIndex) -> None:
    for version, day in (("1.0", "2023-01-05"), ("1.10", "2023-05-01"), ("1.9", "2023-06-01"), ("2.0", "2024-01-01")):
        index.put("dep", version, day)
    index.put("dep", "3.0rc1", "2023-02-01")
    known = release_dates(index)
    assert known.newest("Dep", "2023-12-31") == "1.10"
    assert known.constraints(["dep"], "2023-12-31") == ("dep<=1.10",)
    assert known.constraints(["dep"], "2024-01-02") == ()
    assert known.constraints(["dep"], "2020-01-01") == ()
    assert known.newer(["dep==2.0", "other==1", "-e ."], "2023-12-31") == ("dep==2.0",)
    assert known.newer(["dep==1.9"], "2023-12-31") == ()
    assert known.newer(["dep==1.0"], "2020-01-01") == ("dep==1.0",)


def test_release_later_on_the_day_of_the_commit_is_excluded(index: PackageIndex) -> None:
    index.put("dep", "1.0", "2023-01-05")
    index.put("dep", "2.0", "2023-05-01")  # uploaded at 10:00 UTC
    known = release_dates(index)
    assert known.newest("dep", cutoff_for("2023-05-01T12:30:00+02:00", "3.8")) == "2.0"
    assert known.newest("dep", cutoff_for("2023-05-01T11:30:00+02:00", "3.8")) == "1.0"
    assert known.newest("dep", cutoff_for("2023-05-01T23:30:00+14:00", "3.8")) == "1.0"


def test_index_without_upload_times_gives_no_constraints(index: PackageIndex) -> None:
    index.put("dep", "1.0")
    index.put("dep", "2.0")
    assert release_dates(index).constraints(["dep"], "2023-01-01") == ()
    assert release_dates(index).undated(["dep"]) == ("dep",)


def test_unreachable_index_is_asked_only_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def unreachable(name: str, _settings: PackageSettings) -> tuple[list[Release], list[str]]:
        asked.append(name)
        return [], ["it does not answer"]

    monkeypatch.setattr("agentbench.workspace.source.package_index.find_project", unreachable)
    files, names = ProjectFiles(PackageSettings()), [f"p{number}" for number in range(9)]
    files.look_up(names)
    assert ReleaseDates(files).undated(names) != ()
    assert len(asked) == 2


VERSIONS = st.lists(st.integers(0, 12), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
DAYS = st.dates().map(lambda day: day.isoformat())


@given(st.dictionaries(VERSIONS, DAYS, min_size=1, max_size=8), DAYS)
def test_newest_is_never_after_the_day(releases: dict[str, str], day: str) -> None:
    files = [Release("", f"dep-{version}.tar.gz", None, uploaded) for version, uploaded in releases.items()]
    known = ReleaseDates(ProjectFiles(PackageSettings()), {"dep": read_releases("dep", files)})
    newest = known.newest("dep", day)
    out = [version for version, uploaded in releases.items() if in_utc(uploaded) <= day]
    assert (newest is None) == (not out)
    if newest is not None:
        assert in_utc(releases[newest]) <= day
        assert order_of(newest) == max(map(order_of, out))


def test_cutoff_is_the_commit_unless_the_interpreter_is_newer() -> None:
    assert cutoff_for("2019-01-01T00:00:00+02:00", "3.11") == "2023-03-30"
    assert cutoff_for("2023-03-28T23:00:00-05:00", "3.11") == "2023-03-29T04:00:00"
    assert cutoff_for("2025-01-01T00:00:00Z", "3.11") == "2025-01-01T00:00:00"
    assert cutoff_for("2019-01-01", "") == "2019-01-01T00:00:00"


def test_constraints_apply_to_builds_too() -> None:
    assert with_constraints(["python -m pip install ."], ()) == ("python -m pip install .",)
    first, second = with_constraints(["python -m pip install ."], ["a<=1"])
    assert "a<=1" in first
    assert second.startswith("PIP_CONSTRAINT=")
