"""The store of frozen layers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench.sandbox.environments.layers import Layer, LayerStore, measure


def build_layer(store: LayerStore, key: str, *, size: int = 10, kind: str = "prepared") -> Layer:
    with store.building(kind, key):
        folder = store.new_build(kind, key)
        (folder / "tree/file").write_text(key)
        return store.commit(kind, key, folder, {"bytes": size, "files": 1, "label": key})


def test_another_store_finds_a_build(tmp_path: Path) -> None:
    layer = build_layer(LayerStore(tmp_path), "k")
    found = LayerStore(tmp_path).find("prepared", "k")
    assert found == layer
    assert (found.tree / "file").read_text() == "k"


def test_unfinished_build_is_not_found_and_the_next_removes_it(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    with store.building("prepared", "k"):
        unfinished = store.new_build("prepared", "k")
    assert store.find("prepared", "k") is None
    build_layer(store, "k")
    assert not unfinished.exists()


def test_failed_and_killed_builds_leave_no_files(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    with pytest.raises(OSError, match="broken"):
        _fail_while_building(store)
    assert [path.name for path in (tmp_path / "prepared/key").iterdir()] == ["lock"]
    (tmp_path / "prepared/key/.building-killed/tree").mkdir(parents=True)
    with LayerStore(tmp_path).building("prepared", "key"):
        (tmp_path / "prepared/key/.building-alive").mkdir()
        store.prune(max_bytes=1)
        assert (tmp_path / "prepared/key/.building-alive").is_dir()
    (tmp_path / "prepared/key/.building-killed/tree").mkdir(parents=True)
    store.prune(max_bytes=1)
    assert [path.name for path in (tmp_path / "prepared/key").iterdir()] == ["lock"]


def test_measure_counts_links_and_skips_unreadable_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/locked").mkdir(parents=True)
    (tmp_path / "a/file").write_text("12345")
    (tmp_path / "a/link").symlink_to("locked")
    assert measure(tmp_path) == (5 + len("locked"), 2)
    (tmp_path / "a/locked/unseen").touch()
    open_file = os.open

    def refuse(path: str, flags: int) -> int:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return open_file(path, flags)

    monkeypatch.setattr(os, "open", refuse)
    assert measure(tmp_path) == (5 + len("locked"), 2)


def test_new_build_removes_old_ones_once_they_are_unused(tmp_path: Path) -> None:
    user, builder = LayerStore(tmp_path), LayerStore(tmp_path)
    old = build_layer(builder, "k")
    builder.close()
    user.find("prepared", "k")
    new = build_layer(builder, "k")
    assert old.tree.is_dir()
    builder.close()
    user.close()
    newest = build_layer(builder, "k")
    assert not old.folder.exists()
    assert not new.folder.exists()
    assert builder.find("prepared", "k") == newest


def test_prune_removes_least_recently_used_layers_not_in_use(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    layers = {key: build_layer(store, key, size=100) for key in ("a", "b", "c")}
    store.close()
    for age, key in enumerate(("a", "b", "c")):
        os.utime(layers[key].folder / "use", (1_000_000 + age, 1_000_000 + age))
    user = LayerStore(tmp_path)
    user.find("prepared", "b")
    removed = store.prune(max_bytes=150)
    assert [layer.key for layer in removed] == ["a", "c"]
    assert store.find("prepared", "b") is not None
    assert store.find("prepared", "a") is None


def test_prune_removes_layers_unused_for_too_long(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    layer = build_layer(store, "old")
    build_layer(store, "new")
    store.close()
    os.utime(layer.folder / "use", (1, 1))
    assert [layer.key for layer in store.prune(max_bytes=1 << 40, unused_sec=3600)] == ["old"]


def test_layer_with_damaged_metadata_is_built_again(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    layer = build_layer(store, "k")
    (layer.folder / "meta.json").write_text("{ torn")
    assert store.find("prepared", "k") is None
    assert build_layer(store, "k").build != layer.build


def test_stored_layers_report_size_and_use(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    build_layer(store, "k", size=123)
    (stored,) = LayerStore(tmp_path).stored()
    assert (stored.kind, stored.key, stored.bytes, stored.label, stored.current, stored.in_use) == (
        ("prepared", "k", 123, "k", True, True)
    )
    store.close()
    assert not LayerStore(tmp_path).stored()[0].in_use


def _fail_while_building(store: LayerStore) -> None:
    with store.building("prepared", "key"):
        (store.new_build("prepared", "key") / "tree/file").write_text("x")
        raise OSError("broken")
