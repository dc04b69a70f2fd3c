from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import RecordError
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.record.manifest import Manifest, read_manifest, write_manifest
from agentbench.record.manifest_problems import manifest_problems
from agentbench.trace.redaction import Redactor
from tests.record.samples import manifest

pytestmark = [pytest.mark.req("R-02a"), pytest.mark.component]


@pytest.fixture
def folder(tmp_path: Path) -> AttemptFolder:
    return AttemptFolder(run=tmp_path, task_dir="tasks/toy", attempt_id="01A", task_id="toy", repeat=1, attempt=1)


def test_manifest_round_trips_and_digest_matches_the_file(tmp_path: Path, folder: AttemptFolder) -> None:
    written = manifest(folder)
    path = tmp_path / "manifest.json"
    assert write_manifest(path, written) == sha256_hex(path.read_bytes())
    assert read_manifest(path) == written
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]


def test_manifest_has_the_fields_of_the_protocol(folder: AttemptFolder) -> None:
    value = manifest(folder).model_dump(mode="json")
    planned, observed = value["protocol_manifest"]["planned"], value["protocol_manifest"]["observed"]
    assert value["harness_version"]
    assert {"repository", "task", "acceptance", "entrypoints", "sandbox", "environment", "configuration"} <= set(
        planned
    )
    assert set(planned["entrypoints"]) == {"install", "build", "static", "acceptance"}
    assert {"commit", "submodules", "sha256"} <= set(planned["repository"])
    assert planned["seed"] == observed["seed"]
    asked = {"snapshot", "source", "env_digest", "image_digest", "package_managers", "os", "lockfiles", "registries"}
    assert asked | {"commands", "locale", "hardware", "started_at", "environment"} <= set(observed)


def test_complete_manifest_has_no_problems(folder: AttemptFolder) -> None:
    assert manifest_problems(manifest(folder)) == ()


@pytest.mark.parametrize(
    "observed,problem",
    [
        ({"snapshot": ""}, "observed.snapshot is missing"),
        ({"env_digest": ""}, "observed.env_digest is missing"),
        ({"os": {}}, "observed.os is missing"),
        ({"package_managers": {}}, "observed.package_managers is missing"),
        ({"source": {"commit": "ffff"}}, "repository.commit: planned a1b2, observed ffff"),
        ({"source": {}}, "repository.commit: planned a1b2, observed None"),
        ({"environment": {"TZ": "UTC"}}, "environment: planned none, observed TZ=UTC"),
        ({"seed": 1337}, "seed: planned 20260307, observed 1337"),
        ({"backend": "podman"}, "sandbox.backend: planned bwrap, observed podman"),
    ],
)
def test_missing_or_contradicting_field_is_a_problem(
    folder: AttemptFolder, observed: dict[str, Any], problem: str
) -> None:
    assert tuple(found.message for found in manifest_problems(manifest(folder, **observed))) == (problem,)


def test_manifest_without_observation_is_a_problem(folder: AttemptFolder) -> None:
    whole = manifest(folder)
    bare = whole.model_copy(update={"protocol_manifest": whole.protocol_manifest.model_copy(update={"observed": None})})
    assert len(manifest_problems(bare)) == 1


@pytest.mark.req("E-10a")
def test_manifest_contains_no_secrets(tmp_path: Path, folder: AttemptFolder) -> None:
    written = manifest(folder, environment={"URL": "https://u:hunter2@host", "hunter2": "\udc80"})
    write_manifest(tmp_path / "manifest.json", written, redact=Redactor({"PW": "hunter2", "Q": "snapshot"}))
    text = (tmp_path / "manifest.json").read_text()
    assert "hunter2" not in text
    assert read_manifest(tmp_path / "manifest.json").protocol_manifest.observed is not None


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1, "a": 2}', "{}"])
def test_invalid_manifest_raises_record_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(RecordError, match="is not a manifest"):
        read_manifest(tmp_path / "manifest.json")


def test_missing_manifest_raises_record_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot read"):
        read_manifest(tmp_path / "manifest.json")


@pytest.mark.req("U-03")
def test_manifest_names_its_schema_version(folder: AttemptFolder) -> None:
    assert json.loads(manifest(folder).model_dump_json())["schema_version"] == 1
    assert Manifest.model_fields["schema_version"].default == 1
