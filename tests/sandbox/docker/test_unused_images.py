"""Images that nothing needs any more are removed, and no others."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.sandbox.docker import labels, unused_images
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.engine import Engine, NoSuchImage
from agentbench.sandbox.environments.cache import contents, prune
from agentbench.sandbox.environments.layers import LayerStore
from tests.sandbox.conftest import SPEC, remove_images
from tests.sandbox.docker.conftest import (
    SETUP,
    derived,
    ignore,
    label_changes,
    make_plan,
    root_without_python,
    runner_image,
)

pytestmark = pytest.mark.component


@pytest.mark.req("R-08")
def test_only_images_of_missing_state_folders_are_pruned(engine: Engine, source: Path, tmp_path: Path) -> None:
    images = {}
    for name in ("missing", "existing"):
        backend = DockerBackend(tmp_path / name, engine)
        prepared = backend.prepare(make_plan(source, "echo x > x"), SETUP, on_step=ignore)
        images[name] = prepared.details["prepared_image"]
        backend.close()
    # An image that was built on one of them inherits all labels.
    engine.output("build", "--network", "none", "--tag", "derived/image:1", "-", stdin=derived(images["missing"]))
    try:
        shutil.rmtree(tmp_path / "missing")
        pruned = {item.name for item in prune(tmp_path / "third", max_bytes=1 << 40) if item.kind == "image"}
        assert any(name.startswith("agentbench/prepared:") for name in pruned)
        assert images["missing"] not in {image.id for image in unused_images.own_images(engine)}
        assert engine.inspect_image("derived/image:1")
        assert engine.inspect_image(images["existing"])
    finally:
        engine.output("image", "rm", "derived/image:1")
        remove_images(engine, tmp_path / "existing")


def test_base_image_is_rebuilt_on_demand_and_removed_with_its_original(
    docker: DockerBackend, engine: Engine, tmp_path: Path
) -> None:
    image = "agentbench-test/short-lived:1"
    dockerfile = derived(runner_image(engine))
    engine.output("build", "--network", "none", "--no-cache", "--tag", image, "-", stdin=dockerfile)
    try:
        with docker.open(replace(SPEC, image=image), None) as sandbox:
            assert sandbox.run(Command(line="echo up")).ok
        (base,) = _base_images(engine, tmp_path / "state")
        assert base.source == engine.inspect_image(image)["Id"]
        assert unused_images.remove(engine, [base]) == [base]
        with docker.open(replace(SPEC, image=image), None) as sandbox:  # the backend does not know of the removal
            assert sandbox.run(Command(line="echo up")).ok
        assert [item.kind for item in contents(tmp_path / "state") if item.kind == "image"] == ["image"]
    finally:
        engine.run("image", "rm", "--force", image)
    unused_images.remove_abandoned(engine)
    assert _base_images(engine, tmp_path / "state") == []


def test_image_that_another_process_is_storing_is_no_orphan(engine: Engine, tmp_path: Path) -> None:
    key, state = "0" * 32, tmp_path / "state"
    changes = label_changes({**labels.state_labels(state), labels.KIND: "prepared"})
    image = f"{labels.PREPARED}:{key}-abcdefgh"
    ours, theirs = (LayerStore(state / "layers" / "docker-x") for _ in range(2))
    with theirs.building("prepared", key):
        engine.output("import", *changes, "-", image, stdin=root_without_python(with_shell=False))
        assert unused_images.remove_orphans(engine, state, [ours]) == []
        assert engine.inspect_image(image)
    # Once the other process has stopped without storing it, it is an orphan.
    assert [removed.names for removed in unused_images.remove_orphans(engine, state, [ours])] == [(image,)]
    with pytest.raises(NoSuchImage):
        engine.inspect_image(image)


def test_unreadable_state_folder_does_not_count_as_missing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's state folder may be below a home that this user cannot enter."""
    image, state = "agentbench/base:of-another-user", tmp_path / "closed" / "state"
    changes = label_changes({**labels.state_labels(state), labels.KIND: "base"})
    engine.output("import", *changes, "-", image, stdin=root_without_python(with_shell=False))
    real_stat = Path.stat

    def refuse(path: Path, **options: bool) -> os.stat_result:
        if path == state:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_stat(path, **options)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "stat", refuse)
            assert image not in _remove_abandoned(engine)
        assert engine.inspect_image(image)
        assert image in _remove_abandoned(engine)
    finally:
        engine.run("image", "rm", image)


def test_images_of_another_host_are_kept(engine: Engine, tmp_path: Path) -> None:
    image = "agentbench/base:of-another-machine"
    values = {**labels.state_labels(tmp_path / "absent"), labels.KIND: "base", labels.HOST: "another"}
    engine.output("import", *label_changes(values), "-", image, stdin=root_without_python(with_shell=False))
    try:
        unused_images.remove_abandoned(engine)
        assert engine.inspect_image(image)
    finally:
        engine.output("image", "rm", image)


def _base_images(engine: Engine, state: Path) -> list[unused_images.OwnImage]:
    return [image for image in unused_images.images_of(engine, state) if image.kind == "base"]


def _remove_abandoned(engine: Engine) -> list[str]:
    return [name for image in unused_images.remove_abandoned(engine) for name in image.names]
