"""Compose the tree of a grading replica."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentbench.acceptance.protected import RUNNER_FILES, Protection, compose, importable_test_files, top_level_names
from agentbench.contract.schema import DEFAULT_GENERATED
from agentbench.contract.task_files import HiddenFile
from agentbench.tree.entry import Entry, FileWrite, Kind

pytestmark = pytest.mark.component

FILES = frozenset({b"tests/test_core.py"})
PROTECTION = Protection(files=FILES, generated=DEFAULT_GENERATED)


def base(*paths: bytes) -> dict[bytes, Entry]:
    return {path: Entry(path, Kind.FILE, executable=False, size=1, sha256="0" * 64) for path in paths}


BASE = base(b"src/a.py", b"tests/test_core.py", b"tests/helpers.py", b"tests/data/x.json", b"conftest.py", b"setup.cfg")


def put(path: bytes, content: bytes = b"new") -> FileWrite:
    return FileWrite(path, content=content)


@pytest.mark.req("G-09")
@pytest.mark.parametrize("path", [b"tests/test_core.py", b"conftest.py", b"tests/helpers.py", b"tests/data/x.json"])
@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "changed"])
def test_files_of_the_tests_are_restored(path: bytes, deleted: bool) -> None:
    tree = compose(BASE, [FileWrite(path) if deleted else put(path), put(b"src/a.py")], PROTECTION, {})
    assert tree.restored == (path,)
    assert [write.path for write in tree.writes] == [b"src/a.py"]


@pytest.mark.parametrize(
    "path",
    [
        b"src/conftest.py",
        b"pytest.ini",
        b"tests/tox.ini",
        b"tests/test_mine.py",
        b"tests/__init__.py",
        b"test_repro.py",
    ],
)
def test_added_files_that_configure_the_runner_are_dropped(path: bytes) -> None:
    tree = compose(BASE, [put(path), put(b"src/new.py")], PROTECTION, {})
    assert tree.dropped == (path,)
    assert [write.path for write in tree.writes] == [b"src/new.py"]


@pytest.mark.parametrize(
    "path", [b"src/new.py", b"setup.cfg", b"pyproject.toml", b"tests/data/y.json", b"ab_test/x.py"]
)
def test_ordinary_files_stay(path: bytes) -> None:
    assert [write.path for write in compose(BASE, [put(path)], PROTECTION, {}).writes] == [path]


def test_package_module_may_be_named_like_a_test() -> None:
    known = base(*BASE, b"src/__init__.py")
    assert compose(known, [put(b"src/ab_test.py")], PROTECTION, {}).dropped == ()


@pytest.mark.req("C-20")
def test_generated_files_are_left_out() -> None:
    writes = [put(b"src/__pycache__/a.cpython-311.pyc"), put(b"build/x"), put(b"src/a.pyc"), put(b"src/b.py")]
    tree = compose(BASE, writes, PROTECTION, {})
    assert [write.path for write in tree.writes] == [b"src/b.py"]
    assert len(tree.generated) == 3


def test_globs_of_the_contract_add_to_the_default_protection() -> None:
    protection = Protection(globs=("ci/**",), files=FILES)
    tree = compose(
        base(*BASE, b"ci/run.sh"), [put(b"ci/run.sh"), put(b"ci/more.sh"), put(b"conftest.py")], protection, {}
    )
    assert tree.restored == (b"ci/run.sh", b"conftest.py")
    assert tree.dropped == (b"ci/more.sh",)


def test_required_file_missing_in_base_may_be_written_by_the_patch() -> None:
    protection = Protection(files=frozenset({b"tests/test_wanted.py"}))
    assert compose(BASE, [put(b"tests/test_wanted.py")], protection, {}).dropped == ()


HIDDEN = {b"tests/test_hidden.py": HiddenFile(b"hidden", executable=False)}


@pytest.mark.parametrize(
    "in_the_way",
    [
        [put(b"tests/test_hidden.py")],
        [put(b"tests/test_hidden.py/x.txt")],
        [FileWrite(b"tests/test_hidden.py", symlink=b"test_core.py")],
        [*(FileWrite(path) for path in BASE if path.startswith(b"tests/")), FileWrite(b"tests", symlink=b"src")],
        [*(FileWrite(path) for path in BASE if path.startswith(b"tests/")), put(b"tests")],
    ],
    ids=["file", "folder", "symlink", "linked folder", "file for folder"],
)
def test_hidden_files_replace_what_the_patch_put_there(in_the_way: list[FileWrite]) -> None:
    tree = compose(BASE, in_the_way, PROTECTION, HIDDEN)
    written = {write.path: write for write in tree.writes if write.content is not None or write.symlink is not None}
    assert written[b"tests/test_hidden.py"].content == b"hidden"
    assert b"tests" not in written
    assert not any(path.startswith(b"tests/test_hidden.py/") for path in written)


def test_hidden_files_replace_base_files_in_their_way() -> None:
    tree = compose(base(b"data", b"tests/x.py/old"), [], PROTECTION, {b"data/x": HIDDEN[b"tests/test_hidden.py"]})
    assert FileWrite(b"data") in tree.writes
    over = compose(base(b"t/old"), [], PROTECTION, {b"t": HIDDEN[b"tests/test_hidden.py"]})
    assert FileWrite(b"t/old") in over.writes


def test_bytecode_of_a_changed_source_is_deleted() -> None:
    known = base(b"src/a.py", b"src/__pycache__/a.cpython-311.pyc", b"src/b.py", b"src/__pycache__/b.cpython-311.pyc")
    tree = compose(known, [put(b"src/a.py")], PROTECTION, {})
    assert FileWrite(b"src/__pycache__/a.cpython-311.pyc") in tree.writes
    assert b"src/__pycache__/b.cpython-311.pyc" not in {write.path for write in tree.writes}


PATHS = st.lists(
    st.sampled_from([b"tests", b"src", b"conftest.py", b"test_core.py", b"a.py", b"x", b"pytest.ini"]),
    min_size=1,
    max_size=3,
).map(b"/".join)
WRITES = st.builds(
    lambda path, kind: FileWrite(path, content=b"c" if kind == 0 else None, symlink=b"x" if kind == 1 else None),
    PATHS,
    st.integers(0, 2),
)


@given(st.lists(WRITES, max_size=8, unique_by=lambda write: write.path), st.sets(PATHS, max_size=2))
def test_protected_and_hidden_files_win_over_any_patch(writes: list[FileWrite], hidden: set[bytes]) -> None:
    over = {path: HiddenFile(b"hidden", executable=False) for path in hidden}
    nested = [path for path in hidden if any(other.startswith(path + b"/") for other in hidden)]
    if nested:
        return
    tree = compose(BASE, writes, PROTECTION, over)
    after = dict.fromkeys(BASE, b"base")
    for write in tree.writes:
        if write.content is None and write.symlink is None:
            after.pop(write.path, None)
        else:
            after[write.path] = write.content or b"link"
    for path in hidden:
        assert after[path] == b"hidden"
    clear = [
        path
        for path in BASE
        if not any(path.startswith(other + b"/") or other.startswith(path + b"/") for other in hidden)
    ]
    for path in clear:
        if PROTECTION.restores(path) and path not in hidden:
            assert after[path] == b"base"
    for path in set(after) - set(BASE) - hidden:
        assert posixpath.basename(path) not in RUNNER_FILES


def test_top_level_names_include_every_importable_folder() -> None:
    names = top_level_names(
        [b"src/toy/__init__.py", b"src/toy/json.py", b"tests/helpers.py", b"setup.py", b"docs/x.md"]
    )
    assert names == {"src", "toy", "tests", "helpers", "setup"}


def test_importable_test_files_are_those_of_the_base_repository() -> None:
    paths = [b"tests/expected.py", b"tests/six.py", b"tests/data/x.json", b"src/tests.py", b"lib/expected/__init__.py"]
    assert importable_test_files(paths, paths[:2], {"six"}) == {
        "tests.expected": ("tests/expected.py",),
        "expected": ("", "lib/expected/__init__.py", "tests/expected.py"),
        "tests": ("", "src/tests.py"),
        "tests.six": ("tests/six.py",),
    }


def test_symlink_beside_the_tests_is_dropped() -> None:
    links = [FileWrite(b"tests/expected", symlink=b"../src/own"), FileWrite(b"src/link", symlink=b"own")]
    tree = compose(BASE, links, PROTECTION, {})
    assert tree.dropped == (b"tests/expected",)
    assert [write.path for write in tree.writes] == [b"src/link"]


def test_virtual_environment_in_the_tree_is_protected() -> None:
    there = {**BASE, **base(b"venv/pyvenv.cfg", b"venv/lib/_pytest/runner.py")}
    changes = [FileWrite(b"venv/lib/_pytest/runner.py"), put(b"venv/lib/_pytest/old.py"), put(b"venvs/a.py")]
    tree = compose(there, changes, PROTECTION, {})
    assert (tree.restored, tree.dropped) == ((b"venv/lib/_pytest/runner.py",), (b"venv/lib/_pytest/old.py",))
    assert [write.path for write in tree.writes] == [b"venvs/a.py"]
