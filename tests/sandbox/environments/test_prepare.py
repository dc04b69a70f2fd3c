"""Prepared environments: built once, frozen, shared between harnesses, with a record of what setup did."""

from __future__ import annotations

import os
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import SandboxError, SetupFailed
from agentbench.sandbox.bwrap.backend import BwrapBackend
from agentbench.sandbox.bwrap.launch_params import LaunchParams
from agentbench.sandbox.environments import interpreter as interpreters
from agentbench.sandbox.protocol import Backend, Phase, Prepared, SetupPlan, SetupStep
from tests.sandbox.conftest import SPEC

pytestmark = pytest.mark.component

SETUP = replace(SPEC, phase=Phase.SETUP)


def make_plan(source: Path, *commands: str, **options: object) -> SetupPlan:
    key = str(options.pop("key", " ".join(commands)))
    return SetupPlan(key=key, source=source, commands=commands, capture=(), timeout_sec=60, **options)  # type: ignore[arg-type]


@pytest.fixture
def prepare(backend: Backend, source: Path) -> Callable[..., Prepared]:
    def run(*commands: str, **options: object) -> Prepared:
        return backend.prepare(make_plan(source, *commands, **options), SETUP, on_step=lambda _: None)

    return run


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with one small wheel, as on a host without network."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "tinypkg-1.0.dist-info"
    with zipfile.ZipFile(folder / "tinypkg-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tinypkg.py", "answer = 42\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinypkg\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", f"tinypkg.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return folder


@pytest.fixture
def second(state: Path) -> Iterator[BwrapBackend]:
    """Another harness on the same state folder."""
    backend = BwrapBackend(state)
    yield backend
    backend.close()


def run_in(backend: Backend, prepared: Prepared, line: str) -> bytes:
    with backend.open(SPEC, prepared) as sandbox:
        return sandbox.run(Command(line=line)).stdout.kept


@pytest.mark.req("R-05")
def test_later_phases_see_what_setup_installed(
    backend: Backend, prepare: Callable[..., Prepared], wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    environment = prepare("pip install --no-index tinypkg", key=f"tiny {wheels}")
    assert "tinypkg==1.0" in environment.details["packages"].split("\n")
    for _ in range(2):
        assert run_in(backend, environment, "python -c 'import tinypkg; print(tinypkg.answer)'") == b"42\n"


@pytest.mark.req("R-08")
def test_later_phases_see_neither_index_settings_nor_download_cache(
    backend: Backend, prepare: Callable[..., Prepared], wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("https_proxy", "http://user:word@proxy.invalid:1")
    environment = prepare(
        f"grep {wheels} /etc/pip.conf && ls {wheels} && test -w /var/cache/pip && echo $https_proxy", key="x"
    )
    assert environment.steps[0].exit_code == 0
    assert (
        run_in(backend, environment, f"cat /etc/pip.conf; ls {wheels} /var/cache; echo $https_proxy $PIP_CACHE_DIR")
        == b"\n"
    )


@pytest.mark.req("R-08")
def test_downloads_are_cached_per_base_repository(
    second: BwrapBackend, source: Path, prepare: Callable[..., Prepared]
) -> None:
    put = "cd $PIP_CACHE_DIR; cat http-v2/a/page wheels/built; mkdir -p http-v2/a wheels; echo page > http-v2/a/page; echo w > wheels/built; true"
    assert prepare(put, key="downloads").steps[0].stdout == b""
    repeated = second.prepare(make_plan(source, put, key="downloads", fresh=True), SETUP, on_step=lambda _: None)
    assert repeated.steps[0].stdout == b"page\n"
    assert prepare(put, key="other downloads").steps[0].stdout == b""
    for key, found in (("asked", b""), ("installed", b"page\n")):  # two setups of one repository
        plan = replace(make_plan(source, put, key=key), repository="sha256:0")
        assert second.prepare(plan, SETUP, on_step=lambda _: None).steps[0].stdout == found


def test_second_prepare_runs_nothing(prepare: Callable[..., Prepared]) -> None:
    first = prepare("date +%N > stamp", key="once")
    repeated = prepare("date +%N > stamp", key="once")
    assert (first.cached, repeated.cached) == (False, True)
    assert first.digest == repeated.digest
    assert first.steps == repeated.steps


def test_another_harness_finds_the_environment(
    backend: Backend, second: BwrapBackend, source: Path, prepare: Callable[..., Prepared]
) -> None:
    first = prepare("date +%N > stamp", key="found by others")
    steps: list[SetupStep] = []
    found = second.prepare(make_plan(source, "date +%N > stamp", key="found by others"), SETUP, on_step=steps.append)
    assert found.cached
    assert second._environments._bases == {}, "the interpreter's layer is only needed to build"
    assert steps == []
    assert (found.digest, found.steps, found.setup_changed) == (first.digest, first.steps, first.setup_changed)
    assert list(found.base_tree.entries()) == list(first.base_tree.entries())
    assert run_in(second, found, "cat stamp") == run_in(backend, first, "cat stamp")


def test_two_harnesses_build_an_environment_once(backend: Backend, second: BwrapBackend, source: Path) -> None:
    results: list[Prepared] = []
    plan = make_plan(source, "sleep 0.3; date +%N > stamp", key="raced")

    def prepare(harness: Backend) -> None:
        results.append(harness.prepare(plan, SETUP, on_step=lambda _: None))

    threads = [threading.Thread(target=prepare, args=(harness,)) for harness in (backend, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(result.cached for result in results) == [False, True]
    assert results[0].digest == results[1].digest


def test_fresh_setup_runs_again_and_keeps_environments_in_use(
    backend: Backend, second: BwrapBackend, source: Path, prepare: Callable[..., Prepared]
) -> None:
    old = prepare("date +%N > /home/agent/.cache-me || true; echo same > made", key="fresh")
    with backend.open(SPEC, old) as sandbox:
        new = second.prepare(
            make_plan(source, "date +%N > /home/agent/.cache-me || true; echo same > made", key="fresh", fresh=True),
            SETUP,
            on_step=lambda _: None,
        )
        assert not new.cached
        assert sandbox.run(Command(line="cat made; python -c 'print(1)'")).stdout.kept == b"same\n1\n"
    assert run_in(backend, old, "cat made") == b"same\n"


def test_equal_results_have_equal_digests(
    second: BwrapBackend, source: Path, prepare: Callable[..., Prepared], wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    commands = ("pip install --no-index tinypkg", "python -m compileall -q src", "echo x > made")
    first = prepare(*commands, key=f"equal {wheels}")
    repeated = second.prepare(
        make_plan(source, *commands, key=f"equal {wheels}", fresh=True), SETUP, on_step=lambda _: None
    )
    other = prepare(*commands, "echo y >> made", key=f"other {wheels}")
    assert first.digest == repeated.digest
    assert first.digest != other.digest


def test_files_that_setup_changed_are_reported(prepare: Callable[..., Prepared]) -> None:
    environment = prepare(
        "echo more >> README; rm -r keep; echo new > fresh; touch src/app.py; echo a==1 > requirements.txt"
    )
    assert environment.setup_changed == (b"README", b"keep/file")  # src/app.py was touched, not changed
    paths = {entry.path for entry in environment.base_tree.entries()}
    assert b"fresh" in paths
    assert b"keep/file" not in paths
    assert list(environment.lockfiles) == ["requirements.txt"]
    assert environment.lockfiles["requirements.txt"].startswith("sha256:")


def test_replaced_and_removed_files_are_frozen_as_setup_left_them(
    backend: Backend, prepare: Callable[..., Prepared]
) -> None:
    environment = prepare(
        "rm -r keep && echo now-a-file > keep; rm README && mkdir README && echo in > README/x",
        "rm -r src && mkdir src && echo only > src/only",
        "rm /opt/env/bin/pip3; mkfifo pipe; ln -s /etc/passwd out; chmod 000 run.sh; mkdir locked && chmod 000 locked",
    )
    listing = b"cat keep README/x; ls src; ls /opt/env/bin/pip3; readlink out; ls -d locked"
    assert run_in(backend, environment, listing.decode()) == b"now-a-file\nin\nonly\n/etc/passwd\nlocked\n"


def test_failed_setup_is_not_repeated(backend: Backend, source: Path) -> None:
    plan = make_plan(source, "echo fine", "date +%N\necho lock\necho broken >&2; exit 7", key="fails")
    steps: list[list[SetupStep]] = [[], []]
    for collected in steps:
        with pytest.raises(SetupFailed, match=r"`date \+%N … echo broken >&2; exit 7` .*exit code 7\): broken"):
            backend.prepare(plan, SETUP, on_step=collected.append)
    assert [step.exit_code for step in steps[0]] == [0, 7]
    assert steps[1] == [replace(step, cached=True) for step in steps[0]]


def test_setup_that_exceeds_its_time_fails(backend: Backend, source: Path) -> None:
    plan = replace(make_plan(source, "sleep 100", key="hangs"), timeout_sec=0.5)
    with pytest.raises(SetupFailed, match=r"timed out after 0.5 s"):
        backend.prepare(plan, SETUP, on_step=lambda _: None)


def test_setup_that_exceeds_disk_or_memory_fails(backend: Backend, source: Path) -> None:
    with pytest.raises(SetupFailed, match="No space left"):
        backend.prepare(make_plan(source, "head -c 100M /dev/zero > big"), SETUP, on_step=lambda _: None)
    with pytest.raises(SetupFailed, match=r"memory|exit code"):
        backend.prepare(make_plan(source, "python3 -c 'x = bytearray(1 << 30)'"), SETUP, on_step=lambda _: None)


def test_setup_with_folders_nested_too_deep_fails(backend: Backend, source: Path) -> None:
    deep = "import os\nfor _ in range(900): os.mkdir('d'); os.chdir('d')"
    with pytest.raises(SetupFailed, match="nested deeper"):
        backend.prepare(make_plan(source, f'python3 -c "{deep}"'), SETUP, on_step=lambda _: None)


def test_failed_capture_does_not_fail_setup(backend: Backend, source: Path) -> None:
    plan = replace(make_plan(source, "true", key="capture"), capture=("python --version", "no-such-tool"))
    environment = backend.prepare(plan, SETUP, on_step=lambda _: None)
    assert [(step.capture, step.exit_code) for step in environment.steps] == [(False, 0), (True, 0), (True, 127)]


@pytest.mark.req("R-05")
def test_setup_has_network_only_if_the_policy_allows_it(backend: Backend, prepare: Callable[..., Prepared]) -> None:
    environment = prepare("python3 -c 'import socket; print([n for _, n in socket.if_nameindex()])'", key="no net")
    assert environment.steps[0].stdout == b"['lo']\n"
    spec = replace(SETUP, network=True)
    line = "python3 -c 'import socket; print([n for _, n in socket.if_nameindex()])'; test -s /etc/resolv.conf; echo $?"
    shared = backend.prepare(
        SetupPlan("net", Path("/usr/share/doc/bubblewrap"), (line,), (), 60), spec, on_step=lambda _: None
    )
    interfaces = sorted(path.name for path in Path("/sys/class/net").iterdir())
    assert all(name.encode() in shared.steps[0].stdout for name in interfaces)
    assert shared.steps[0].stdout.endswith(b"0\n" if Path("/etc/resolv.conf").stat().st_size else b"1\n")


class TestSecrets:
    def test_secrets_reach_only_setup_and_are_redacted(
        self, backend: Backend, prepare: Callable[..., Prepared]
    ) -> None:
        environment = prepare(
            'test "$TOKEN" = s3cr3t-value && echo token is $TOKEN', key="secret", secrets={"TOKEN": "s3cr3t-value"}
        )
        assert environment.steps[0].stdout == b"token is [redacted:TOKEN]\n"
        assert b"s3cr3t" not in run_in(backend, environment, "env; cat /proc/*/environ")

    def test_secret_left_in_a_file_fails_setup(self, prepare: Callable[..., Prepared]) -> None:
        with pytest.raises(SetupFailed, match=r"secret TOKEN in .*netrc") as caught:
            prepare("echo password $TOKEN > ~/.netrc", key="leak", secrets={"TOKEN": "s3cr3t-value"})
        assert "s3cr3t" not in str(caught.value)

    def test_index_credentials_are_used_and_redacted(
        self, prepare: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://someone:pa55%21word@index.invalid/simple")
        environment = prepare("grep -c 'someone:pa55%21word@' /etc/pip.conf; cat /etc/pip.conf", key="index")
        assert environment.steps[0].stdout.startswith(b"1\n")
        assert b"pa55" not in environment.steps[0].stdout
        assert "pa55" not in environment.details["registries"]
        assert "https://index.invalid/simple" in environment.details["registries"]

    def test_other_host_variables_do_not_reach_setup(
        self, prepare: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENROUTER_API_KEY", "sk-very-secret")
        assert b"sk-very" not in prepare("env", key="env").steps[0].stdout


class TestInterpreters:
    @pytest.mark.parametrize("has_venv", [True, False])
    def test_interpreter_without_pip_gets_one(self, backend: BwrapBackend, has_venv: bool) -> None:
        python = replace(backend.interpreter(None), stamp=f"test {has_venv}", has_pip=False, has_venv=has_venv)
        layer = backend._environments._base(python)
        sandbox = backend.start(SPEC, LaunchParams(layers=(layer.tree,), python=python))
        try:
            done = sandbox.run(Command(line="pip --version && pip3 list && command -v pip && python -m pip --version"))
        finally:
            sandbox.close()
        assert done.exit_code == 0, done
        assert b"/opt/env/bin/pip\n" in done.stdout.kept

    def test_interpreter_outside_system_folders_is_visible_at_its_path(self, backend: Backend) -> None:
        managed = [python for python in interpreters.installed() if python.roots]
        if not managed:
            pytest.skip("no interpreter outside the system folders")
        spec = replace(SPEC, python=managed[0].short)
        with backend.open(spec, None) as sandbox:
            done = sandbox.run(
                Command(line="python -c 'import sys, ssl, sqlite3; print(sys.version_info[:2])'; pip --version")
            )
        assert done.stdout.kept.startswith(f"({managed[0].version[0]}, {managed[0].version[1]})\n".encode())

    def test_missing_interpreter_lists_those_found(self, backend: Backend) -> None:
        refused = pytest.raises(SandboxError, match=r"no Python 3\.99 .*found: 3\.")
        with refused as caught, backend.open(replace(SPEC, python="3.99"), None):
            pass
        assert "install Python 3.99" in caught.value.remedy


def test_environment_of_another_backend_is_refused(second: BwrapBackend, prepared: Prepared) -> None:
    with pytest.raises(SandboxError, match="not prepared by this backend"), second.open(SPEC, prepared):
        pass


def test_missing_source_is_a_harness_error(backend: Backend, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="cannot prepare the environment"):
        backend.prepare(make_plan(tmp_path / "absent", key="absent"), SETUP, on_step=lambda _: None)


def test_frozen_layers_belong_to_the_sandbox_user_and_never_change(
    backend: BwrapBackend, prepared: Prepared, source: Path
) -> None:
    layer = backend._preparer.get(prepared).layer
    before = {path: path.lstat().st_mtime_ns for path in sorted(layer.tree.rglob("*"))}
    owner = os.geteuid() if backend.uid is None else backend.uid
    assert {path.lstat().st_uid for path in before} == {owner}
    with backend.open(SPEC, prepared) as sandbox:
        sandbox.run(
            Command(line="find . ~ /opt/env -type f -exec sh -c 'echo x >> {}' \\; ; rm -rf /opt/env/* ./* ~/.config")
        )
    assert {path: path.lstat().st_mtime_ns for path in sorted(layer.tree.rglob("*"))} == before
