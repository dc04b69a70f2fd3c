from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.core.canonical import sha256_hex
from agentbench.core.command import Stream
from agentbench.core.errors import RecordError
from agentbench.trace.blobs import BlobStore, excerpt
from agentbench.trace.redaction import Redactor

pytestmark = [pytest.mark.req("E-04", "R-16"), pytest.mark.component]


def captured(data: bytes, keep: int) -> Stream:
    """Return a stream as a sandbox would capture it."""
    if len(data) <= keep:
        return Stream(data, b"", len(data), sha256_hex(data))
    half = keep // 2
    return Stream(data[:half], data[len(data) - half :], len(data), sha256_hex(data))


def test_short_output_is_not_stored(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    shown = excerpt(b"1 passed\n", store=store)
    assert shown.text == "1 passed\n"
    assert (shown.truncated, shown.blob) == (False, None)
    assert (shown.total_bytes, shown.sha256) == (9, sha256_hex(b"1 passed\n"))
    assert not store.folder.exists()


def test_long_output_shows_both_ends_and_is_stored(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    data = b"first\n" + b"x" * 10_000 + b"\nlast"
    shown = excerpt(data, store=store, limit=100)
    assert shown.text.startswith("first\n")
    assert shown.text.endswith("\nlast")
    assert "bytes dropped" in shown.text
    assert len(shown.text) < 200
    assert shown.truncated
    assert shown.blob
    assert store.get(shown.blob) == data


def test_truncated_stream_keeps_the_digest_of_the_whole(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    data = bytes(range(97, 123)) * 1000
    shown = excerpt(captured(data, 1000), store=store, limit=100)
    assert (shown.sha256, shown.total_bytes, shown.truncated) == (sha256_hex(data), len(data), True)
    assert shown.blob
    kept = store.get(shown.blob)
    assert kept.startswith(data[:500])
    assert kept.endswith(data[-500:])


def test_binary_output_is_base64() -> None:
    shown = excerpt(b"\xff\xfe\x00binary")
    assert shown.encoding == "base64"
    assert base64.b64decode(shown.text) == b"\xff\xfe\x00binary"


@given(st.text(min_size=50), st.integers(8, 40))
def test_cut_never_splits_a_character(text: str, limit: int) -> None:
    data = text.encode("utf-8", "replace")
    assert excerpt(data, limit=limit).encoding == "utf-8"
    assert excerpt(captured(data, limit), limit=limit).encoding == "utf-8"


@given(st.binary(max_size=300), st.integers(0, 300), st.integers(2, 300))
def test_excerpt_is_bounded_for_any_input(data: bytes, limit: int, keep: int) -> None:
    shown = excerpt(captured(data, keep), limit=limit)
    assert shown.total_bytes == len(data)
    assert shown.sha256 == sha256_hex(data)
    text = base64.b64decode(shown.text) if shown.encoding == "base64" else shown.text.encode()
    assert len(text) <= limit + 60
    assert shown.truncated == (len(data) > limit or len(data) > keep)
    if not shown.truncated:
        assert text == data


def test_blob_is_checked_against_its_name(tmp_path: Path) -> None:
    store = BlobStore(tmp_path / "blobs")
    name = store.put(b"content")
    assert name == sha256_hex(b"content") == store.put(b"content")
    assert [path.name for path in store.folder.iterdir()] == [name]
    (store.folder / name).write_bytes(b"Content")
    with pytest.raises(RecordError, match="does not match its name"):
        store.get(name)
    with pytest.raises(RecordError, match="cannot read"):
        store.get("0" * 64)
    with pytest.raises(RecordError):
        store.get("../../etc/passwd")


def test_unwritable_store_raises_record_error(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file is in the way")
    with pytest.raises(RecordError, match="cannot write"):
        BlobStore(tmp_path / "blobs").put(b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["blobs"]


@pytest.mark.req("E-10a")
def test_no_part_of_a_secret_remains_at_a_cut(tmp_path: Path) -> None:
    secret = "hunter2-hunter2-hunter2"
    store = BlobStore(tmp_path / "blobs", redact=Redactor({"TOKEN": secret}))
    for keep in range(20, 90):
        data = b"a" * 30 + secret.encode() + b"b" * 30 + secret.encode() + b"c" * 30
        for source in (data, captured(data, keep)):
            shown = excerpt(source, store=store, limit=40)
            stored = store.get(shown.blob) if shown.blob else b""
            for text in (shown.text, stored.decode()):
                clean = text.replace("[redacted:TOKEN:", "")
                assert not any(secret[at : at + 4] in clean for at in range(len(secret) - 3)), (keep, text)
