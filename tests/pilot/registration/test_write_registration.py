"""A design is compared with everything that its registration froze."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentbench.core.canonical import canonical, sha256_hex
from agentbench.pilot.design.pilot_design import read_design, write_plan_files
from agentbench.pilot.lifecycle.freeze import freeze_pilot
from agentbench.pilot.registration.registration import read_registrations
from agentbench.pilot.registration.write_registration import current_content, frozen_differences
from tests.pilot.studies import make_pilot

pytestmark = [pytest.mark.component, pytest.mark.req("L-01")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = make_pilot(tmp_path / "study")
    write_plan_files(read_design(folder))
    freeze_pilot(folder)
    return folder


def differences(folder: Path, **changes: object) -> list[str]:
    (registration,) = read_registrations(folder)
    now = current_content(read_design(folder))
    return list(frozen_differences(registration, now.model_copy(update=changes)))


@pytest.mark.parametrize("name", ["question", "endpoint", "harness_version", "harness_sources", "rubric", "thresholds"])
def test_every_frozen_value_is_compared(folder: Path, name: str) -> None:
    assert differences(folder) == []
    (difference,) = differences(folder, **{name: "another"})
    assert difference.startswith(f"{name}: was ")


def test_registration_without_the_code_of_the_harness_is_still_read(folder: Path) -> None:
    """Earlier versions did not freeze it."""
    value = json.loads((folder / "registration.json").read_text())
    del value["harness_sources"], value["registration_id"]
    value["registration_id"] = "sha256:" + sha256_hex(canonical(value))
    for place in (folder, folder / "registrations" / "1"):
        (place / "registration.json").write_text(json.dumps(value))
    assert differences(folder, harness_sources="another") == []
