"""The store of frozen layers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentbench.sandbox.environments.layers import Layer, LayerStore, measure


def build(store: LayerStore, key: str, *, size: int = 10, kind: str = "prepared") -> Layer:
    with store.building(kind, key):
        folder = store.new_build(kind, key)
        (folder / "tree/file").write_text(key)
        return store.commit(kind, key, folder, {"bytes": size, "files": 1, "label": key})


def test_a_build_is_found_again_by_another_store(tmp_path: Path) -> None:
    built = build(LayerStore(tmp_path), "k")
    found = LayerStore(tmp_path).find("prepared", "k")
    assert found == built
    assert (found.tree / "file").read_text() == "k"


def test_unfinished_build_is_not_found_and_goes_with_the_next(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    with store.building("prepared", "k"):
        unfinished = store.new_build("prepared", "k")
    assert store.find("prepared", "k") is None
    build(store, "k")
    assert not unfinished.exists()


def test_failed_and_killed_builds_leave_no_files(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    with pytest.raises(OSError, match="broken"):
        _broken_build(store)
    assert [path.name for path in (tmp_path / "prepared/key").iterdir()] == ["lock"]
    (tmp_path / "prepared/key/.building-killed/tree").mkdir(parents=True)
    with LayerStore(tmp_path).building("prepared", "key"):
        (tmp_path / "prepared/key/.building-alive").mkdir()
        store.prune(max_bytes=1)
        assert (tmp_path / "prepared/key/.building-alive").is_dir()
    (tmp_path / "prepared/key/.building-killed/tree").mkdir(parents=True)
    store.prune(max_bytes=1)
    assert [path.name for path in (tmp_path / "prepared/key").iterdir()] == ["lock"]


def test_measure_counts_links_and_passes_over_what_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/locked").mkdir(parents=True)
    (tmp_path / "a/file").write_text("12345")
    (tmp_path / "a/link").symlink_to("locked")
    assert measure(tmp_path) == (5 + len("locked"), 2)
    scan = os.scandir

    def refuse(path: str) -> object:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert measure(tmp_path) == (5 + len("locked"), 2)


def test_new_build_replaces_an_unused_one_and_waits_for_a_used_one(tmp_path: Path) -> None:
    user, builder = LayerStore(tmp_path), LayerStore(tmp_path)
    old = build(builder, "k")
    builder.close()
    user.find("prepared", "k")
    new = build(builder, "k")
    assert old.tree.is_dir()
    builder.close()
    user.close()
    newest = build(builder, "k")
    assert not old.folder.exists()
    assert not new.folder.exists()
    assert builder.find("prepared", "k") == newest


def test_prune_takes_the_least_recently_used_first_and_never_what_is_in_use(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    layers = {key: build(store, key, size=100) for key in ("a", "b", "c")}
    store.close()
    for age, key in enumerate(("a", "b", "c")):
        os.utime(layers[key].folder / "use", (1_000_000 + age, 1_000_000 + age))
    user = LayerStore(tmp_path)
    user.find("prepared", "b")
    removed = store.prune(max_bytes=150)
    assert [item.key for item in removed] == ["a", "c"]
    assert store.find("prepared", "b") is not None
    assert store.find("prepared", "a") is None


def test_prune_by_age(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    layer = build(store, "old")
    build(store, "new")
    store.close()
    os.utime(layer.folder / "use", (1, 1))
    assert [item.key for item in store.prune(max_bytes=1 << 40, unused_sec=3600)] == ["old"]


def test_damaged_cache_is_built_anew(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    layer = build(store, "k")
    (layer.folder / "meta.json").write_text("{ torn")
    assert store.find("prepared", "k") is None
    assert build(store, "k").build != layer.build


def test_listing_tells_size_use_and_age(tmp_path: Path) -> None:
    store = LayerStore(tmp_path)
    build(store, "k", size=123)
    (line,) = LayerStore(tmp_path).stored()
    assert (line.kind, line.key, line.bytes, line.label, line.current, line.in_use) == (
        ("prepared", "k", 123, "k", True, True)
    )
    store.close()
    assert not LayerStore(tmp_path).stored()[0].in_use


def _broken_build(store: LayerStore) -> None:
    with store.building("prepared", "key"):
        (store.new_build("prepared", "key") / "tree/file").write_text("x")
        raise OSError("broken")
