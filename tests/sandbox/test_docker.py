"""What is docker's own: images, committed environments, a monitored disk, containers that outlive nobody."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentbench.core.command import Command
from agentbench.core.errors import PatchInvalid, SandboxError, SandboxUnavailable, SetupFailed
from agentbench.sandbox.docker import bundled_python, labels, unused_images
from agentbench.sandbox.docker.backend import DockerBackend
from agentbench.sandbox.docker.engine import Engine, NoSuchImage, find_engine
from agentbench.sandbox.environments.cache import contents, prune
from agentbench.sandbox.environments.layers import LayerStore
from agentbench.sandbox.protocol import Phase, Prepared, SetupPlan, SetupStep
from agentbench.sandbox.registry import open_backend
from agentbench.sandbox.served_sandbox import ServedSandbox
from agentbench.sandbox.usage_sampler import SampledBackend
from agentbench.tree.entry import FileWrite, Kind
from tests.sandbox.conftest import SPEC, remove_images, require_docker

BACKENDS = ["docker"]
SETUP = replace(SPEC, phase=Phase.SETUP)
_HOLDS_NAMELESS = """python3 -c "
import os, time
held = [open(f'f{i}', 'wb', 0) for i in range(8)]
for file in held: os.unlink(file.name); file.write(bytes(20 << 20))
time.sleep(60)" """


@pytest.fixture(scope="module")
def engine() -> Engine:
    require_docker()
    return find_engine()


@pytest.fixture
def docker(engine: Engine, tmp_path: Path) -> Iterator[DockerBackend]:
    """A backend with a state folder of its own."""
    backend = DockerBackend(tmp_path / "state", engine)
    yield backend
    backend.close()
    remove_images(engine, tmp_path / "state")


def plan(source: Path, *commands: str, key: str = "k", **options: object) -> SetupPlan:
    values: dict[str, object] = {"timeout_sec": 120.0, "capture": (), **options}
    return SetupPlan(key=key, source=source, commands=commands, **values)  # type: ignore[arg-type]


def ignore(_: SetupStep) -> None:
    """Steps are of no interest."""


def containers(engine: Engine, state: Path) -> list[str]:
    mark = f"label={labels.STATE}={labels.state_hash(state)}"
    return engine.output("ps", "--all", "--quiet", "--no-trunc", "--filter", mark).split()


class TestEnvironments:
    @pytest.mark.req("R-02", "R-08", "C-04")
    def test_setup_runs_once_and_is_found_by_the_next(
        self, docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
    ) -> None:
        steps: list[SetupStep] = []
        wanted = plan(source, "echo made > made; echo changed >> README; rm keep/file")
        first = docker.prepare(wanted, SETUP, on_step=steps.append)
        assert (first.cached, first.backend, len(steps)) == (False, "docker", 1)
        assert first.setup_changed == (b"README", b"keep/file")
        assert first.base_tree.read(b"made", max_bytes=100) == b"made\n"
        assert first.base_tree.read(b"README", max_bytes=100) == b"read me\nchanged\n"
        assert first.base_tree.read(b"src/app.py", max_bytes=100) == b"print('app')\n"
        assert first.details["image_digest"].startswith("sha256:")
        other = DockerBackend(tmp_path / "state", engine)
        try:
            again = other.prepare(wanted, SETUP, on_step=steps.append)
            assert (again.cached, again.digest, len(steps)) == (True, first.digest, 1)
            assert list(again.base_tree.entries()) == list(first.base_tree.entries())
            with other.open(SPEC, again) as box:
                assert box.run(Command(line="cat made")).stdout.kept == b"made\n"
        finally:
            other.close()

    def test_image_that_was_removed_is_made_again(self, docker: DockerBackend, engine: Engine, source: Path) -> None:
        first = docker.prepare(plan(source, "echo made > made"), SETUP, on_step=ignore)
        engine.output("image", "rm", "--force", first.details["prepared_image"])
        with pytest.raises(SandboxError, match=r"(?i)no such image") as caught, docker.open(SPEC, first):
            pass
        assert "ab run --resume" in caught.value.remedy
        state = Path(str(docker.layers._root)).parents[1]
        other = DockerBackend(state, engine)
        try:
            again = other.prepare(plan(source, "echo made > made"), SETUP, on_step=ignore)
            assert not again.cached
            with other.open(SPEC, again) as box:
                assert box.run(Command(line="cat made")).ok
        finally:
            other.close()

    def test_failed_setup_is_told_once_and_leaves_no_container(
        self, docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
    ) -> None:
        steps: list[SetupStep] = []
        for _ in range(2):
            with pytest.raises(SetupFailed, match="exit code 3"):
                docker.prepare(plan(source, "echo tried >&2; exit 3"), SETUP, on_step=steps.append)
        assert len({step.duration_sec for step in steps}) == 1
        assert containers(engine, tmp_path / "state") == []

    def test_nothing_of_setups_own_means_goes_on(
        self, docker: DockerBackend, engine: Engine, source: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:pa55word@index.invalid/simple")
        monkeypatch.setenv("https_proxy", "http://proxyuser:pr0xy@proxy.invalid:3128")
        wanted = plan(source, "cat /etc/pip.conf; env; echo $TOKEN | wc -c", secrets={"TOKEN": "s3cret-value"})
        seen: list[SetupStep] = []
        prepared = docker.prepare(wanted, SETUP, on_step=seen.append)
        assert b"index.invalid" in seen[0].stdout
        for hidden in (b"pa55word", b"pr0xy", b"s3cret-value"):
            assert hidden not in seen[0].stdout
        with docker.open(SPEC, prepared) as box:
            done = box.run(Command(line="cat /etc/pip.conf; env; ls -A /tmp"))
        assert b"invalid" not in done.stdout.kept
        told = json.dumps(engine.inspect_image(prepared.details["prepared_image"]))
        assert not any(hidden in told for hidden in ("pa55word", "pr0xy", "s3cret-value", "index.invalid"))

    def test_secret_that_setup_leaves_behind_is_refused(self, docker: DockerBackend, source: Path) -> None:
        wanted = plan(source, "mkdir ~/.conf && echo $TOKEN > ~/.conf/netrc", secrets={"TOKEN": "s3cret-value"})
        with pytest.raises(SetupFailed, match=r"secret TOKEN in /home/agent/\.conf/netrc"):
            docker.prepare(wanted, SETUP, on_step=ignore)

    def test_equal_results_have_equal_digests(self, docker: DockerBackend, source: Path) -> None:
        made = [
            docker.prepare(
                plan(source, "date +%N > ~/.cache-not; rm ~/.cache-not; echo x > x", key=key), SETUP, on_step=ignore
            )
            for key in ("one", "two")
        ]
        assert made[0].digest == made[1].digest
        assert made[0].digest != docker.prepare(plan(source, "echo y > x"), SETUP, on_step=ignore).digest

    @pytest.mark.req("R-08")
    def test_pruning_takes_the_image_along_unless_it_is_in_use(
        self, docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
    ) -> None:
        prepared = docker.prepare(plan(source, "head -c 1000000 /dev/urandom > big"), SETUP, on_step=ignore)
        image = prepared.details["prepared_image"]
        kept = [item for item in contents(tmp_path / "state") if item.kind == "prepared"]
        assert [item.in_use for item in kept] == [True]
        assert 1_000_000 <= kept[0].bytes < 20_000_000
        prune(tmp_path / "state", max_bytes=0)
        assert engine.inspect_image(image)["Id"] == image
        docker.close()
        prune(tmp_path / "state", max_bytes=0)
        with pytest.raises(NoSuchImage):
            engine.inspect_image(image)


class TestNobodysImages:
    @pytest.mark.req("R-08")
    def test_images_of_a_state_folder_that_is_gone_are_pruned_and_no_others(
        self, engine: Engine, source: Path, tmp_path: Path
    ) -> None:
        images = {}
        for name in ("gone", "there"):
            backend = DockerBackend(tmp_path / name, engine)
            images[name] = backend.prepare(plan(source, "echo x > x"), SETUP, on_step=ignore).details["prepared_image"]
            backend.close()
        # Somebody's own work on top of one: it has inherited every label of ours.
        engine.output("build", "--network", "none", "--tag", "somebody/else:1", "-", stdin=_from(images["gone"]))
        try:
            shutil.rmtree(tmp_path / "gone")
            pruned = {item.name for item in prune(tmp_path / "a-third", max_bytes=1 << 40) if item.kind == "image"}
            assert any(name.startswith("agentbench/prepared:") for name in pruned)
            assert images["gone"] not in {image.id for image in unused_images.own_images(engine)}
            assert engine.inspect_image("somebody/else:1")
            assert engine.inspect_image(images["there"])
        finally:
            engine.output("image", "rm", "somebody/else:1")
            remove_images(engine, tmp_path / "there")

    def test_what_was_made_ready_from_an_image_goes_with_it_and_is_made_again(
        self, docker: DockerBackend, engine: Engine, tmp_path: Path
    ) -> None:
        image = "agentbench-test/short-lived:1"
        runner = engine.output("image", "ls", "--quiet", "agentbench/py-runner").split()[0]
        engine.output("build", "--network", "none", "--no-cache", "--tag", image, "-", stdin=_from(runner))
        try:
            with docker.open(replace(SPEC, image=image), None) as box:
                assert box.run(Command(line="echo up")).ok
            (made,) = [item for item in unused_images.images_of(engine, tmp_path / "state") if item.kind == "base"]
            assert made.source == engine.inspect_image(image)["Id"]
            assert unused_images.remove(engine, [made]) == [made]
            with docker.open(replace(SPEC, image=image), None) as box:  # removed behind the back of who uses it
                assert box.run(Command(line="echo up")).ok
            assert [item.kind for item in contents(tmp_path / "state") if item.kind == "image"] == ["image"]
        finally:
            engine.run("image", "rm", "--force", image)
        unused_images.remove_abandoned(engine)
        assert [item for item in unused_images.images_of(engine, tmp_path / "state") if item.kind == "base"] == []

    def test_what_another_process_is_about_to_store_is_nobodys_to_remove(self, engine: Engine, tmp_path: Path) -> None:
        key, state = "0" * 32, tmp_path / "state"
        mark = {**labels.state_labels(state), labels.KIND: "prepared"}
        changes = [part for name, value in mark.items() for part in ("--change", f"LABEL {name}={value}")]
        image = f"{labels.PREPARED}:{key}-abcdefgh"
        ours, theirs = (LayerStore(state / "layers" / "docker-x") for _ in range(2))
        with theirs.building("prepared", key):
            engine.output("import", *changes, "-", image, stdin=_bare_root(with_shell=False))
            assert unused_images.remove_orphans(engine, state, [ours]) == []
            assert engine.inspect_image(image)
        # Its builder was killed before it came so far: now it is an orphan.
        assert [found.names for found in unused_images.remove_orphans(engine, state, [ours])] == [(image,)]
        with pytest.raises(NoSuchImage):
            engine.inspect_image(image)

    def test_state_folder_that_cannot_be_looked_for_is_not_gone(
        self, engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another user's, below a home that is closed to us: an error of the kernel's, not an answer."""
        image, place = "agentbench/base:of-another-user", tmp_path / "closed" / "state"
        mark = {**labels.state_labels(place), labels.KIND: "base"}
        changes = [part for key, value in mark.items() for part in ("--change", f"LABEL {key}={value}")]
        engine.output("import", *changes, "-", image, stdin=_bare_root(with_shell=False))
        look = Path.stat

        def closed(path: Path, **options: bool) -> os.stat_result:
            if path == place:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return look(path, **options)

        try:
            with monkeypatch.context() as patched:
                patched.setattr(Path, "stat", closed)
                assert image not in [name for item in unused_images.remove_abandoned(engine) for name in item.names]
            assert engine.inspect_image(image)
            assert image in [name for item in unused_images.remove_abandoned(engine) for name in item.names]
        finally:
            engine.run("image", "rm", image)

    def test_foreign_host_or_name_is_nobody_elses_to_remove(self, engine: Engine, tmp_path: Path) -> None:
        image = "agentbench/base:of-another-machine"
        mark = {**labels.state_labels(tmp_path / "absent"), labels.KIND: "base", labels.HOST: "another"}
        changes = [part for key, value in mark.items() for part in ("--change", f"LABEL {key}={value}")]
        engine.output("import", *changes, "-", image, stdin=_bare_root(with_shell=False))
        try:
            unused_images.remove_abandoned(engine)
            assert engine.inspect_image(image)
        finally:
            engine.output("image", "rm", image)


class TestImages:
    def test_image_that_is_not_there_names_the_command(self, docker: DockerBackend) -> None:
        with pytest.raises(SandboxUnavailable, match=r"example\.invalid/none:1 is not on this machine") as caught:
            docker.check(replace(SPEC, image="example.invalid/none:1"))
        assert caught.value.remedy == "docker pull example.invalid/none:1"

    def test_name_that_looks_like_an_option_is_a_name(self, docker: DockerBackend) -> None:
        with pytest.raises(SandboxError):
            docker.check(replace(SPEC, image="--help"))

    @pytest.mark.req("C-04")
    def test_dockerfile_is_built_once_and_sees_nothing_beside_it(
        self, docker: DockerBackend, engine: Engine, tmp_path: Path, source: Path
    ) -> None:
        base = engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "agentbench/py-runner").split()[0]
        (tmp_path / "hidden.txt").write_text("answer")
        file = tmp_path / "Dockerfile"
        file.write_text(f"FROM {base}\nENV FLAVOUR=own\nRUN ls -A > /tmp/x; id -u > /opt/env/who\n")
        spec = replace(SETUP, dockerfile=file)
        prepared = docker.prepare(plan(source, "true"), spec, on_step=ignore)
        tag = prepared.details["image"]
        assert prepared.details["image_digest"] == engine.inspect_image(tag)["Id"]
        with docker.open(replace(spec, phase=Phase.AGENT), prepared) as box:
            assert box.run(Command(line="echo $FLAVOUR; cat /opt/env/who")).stdout.kept == b"own\n1000\n"
        file.write_text(f"FROM {base}\nCOPY hidden.txt /hidden.txt\n")
        with pytest.raises(SetupFailed, match="does not build: COPY failed: "):
            docker.prepare(plan(source, "true", key="other"), spec, on_step=ignore)
        another = DockerBackend(tmp_path / "state", engine)
        with contextlib.closing(another), pytest.raises(SetupFailed, match="was not retried"):
            another.prepare(plan(source, "true", key="other"), spec, on_step=ignore)
        engine.run("image", "rm", "--force", tag)

    @pytest.mark.parametrize("shell", [True, False])
    def test_image_without_python_gets_ours_for_the_server_alone(
        self, docker: DockerBackend, engine: Engine, source: Path, shell: bool
    ) -> None:
        image = f"agentbench-test/bare-{shell}:1".lower()
        engine.output("import", "-", image, stdin=_bare_root(with_shell=shell))
        spec = replace(SPEC, image=image)
        try:
            prepared = docker.prepare(plan(source), replace(spec, phase=Phase.SETUP), on_step=ignore)
            assert "copied into the image" in prepared.details["server"]
            assert prepared.details["python"] == "absent"
            with docker.open(spec, prepared) as box:
                assert box.run(Command(argv=("python3", "-V"))).exit_code == 127
                done = box.run(Command(line="echo $0 $HOME"))
                assert done.stdout.kept == (b"/bin/sh /home/agent\n" if shell else b"")
                assert done.exit_code == (0 if shell else 127)
                box.write_files([FileWrite(b"new", b"x")])
                assert {entry.path for entry in box.tree().entries()} > {b"new", b"src/app.py"}
        finally:
            engine.run("image", "rm", "--force", image)

    def test_neither_the_images_interpreter_nor_ours_is_refused_with_the_remedy(
        self, docker: DockerBackend, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Never a weaker way: `docker exec` could not give a test run its own descriptor for results."""
        image = "agentbench-test/bare-refused:1"
        engine.output("import", "-", image, stdin=_bare_root(with_shell=True))
        monkeypatch.setattr("agentbench.sandbox.docker.bundled_python._find_parts", lambda _: None)
        bundled_python._parts.cache_clear()
        try:
            with pytest.raises(SandboxUnavailable, match="no interpreter of this host can be copied into it") as caught:
                docker.open(replace(SPEC, image=image), None).__enter__()
            assert caught.value.exit_code == 3
            assert "python3 3.8" in caught.value.remedy
        finally:
            engine.run("image", "rm", "--force", image)

    @pytest.mark.req("C-04")
    def test_image_of_busybox_alone_is_a_whole_sandbox(
        self, docker: DockerBackend, engine: Engine, source: Path
    ) -> None:
        """Another libc, or none: nothing of the image is needed to run commands in it, or to read its tree."""
        image = "agentbench-test/busybox:1"
        engine.output("import", "-", image, stdin=_busybox_root())
        spec = replace(SPEC, image=image)
        try:
            wanted = plan(source, "date +%s > made; ls -l / > /dev/null", capture=("busybox | head -n 1",))
            prepared = docker.prepare(wanted, replace(spec, phase=Phase.SETUP), on_step=ignore)
            assert b"BusyBox" in prepared.steps[1].stdout
            with docker.open(spec, prepared) as box:
                assert isinstance(box, ServedSandbox)
                assert re.fullmatch(r"python 3\.\d+\.\d+, copied into the image, which has none that fits", box.server)
                assert box.run(Command(line="id -u; python3 -V || wc -l < made")).stdout.kept == b"1000\n1\n"
                assert box.run(Command(line="sleep 60 & yes", timeout_sec=0.5)).timed_out
                assert box.kill_processes() == 0
                running = box.start(Command(line="cat", timeout_sec=20))
                running.write(b"\0binary\xff")
                running.close_stdin()
                assert running.wait().stdout.kept == b"\0binary\xff"
                assert {entry.path for entry in box.tree().entries()} > {b"made", b"src/app.py"}
        finally:
            engine.run("image", "rm", "--force", image)

    @pytest.mark.req("R-05", "R-06")
    def test_volumes_of_an_image_are_part_of_the_sandbox_like_everything_else(
        self, docker: DockerBackend, engine: Engine, source: Path, tmp_path: Path
    ) -> None:
        """What is written to a volume is in no layer: it would neither be committed nor be seen by a limit."""
        image = "agentbench-test/volumes:1"
        changes = ["VOLUME /workspace /data", "ENV FLAVOUR=own"]
        options = [part for change in changes for part in ("--change", change)]
        engine.output("import", *options, "-", image, stdin=_busybox_root())
        spec = replace(SPEC, image=image)
        try:
            wanted = plan(source, "echo made > made; echo $FLAVOUR > ~/flavour")
            prepared = docker.prepare(wanted, replace(spec, phase=Phase.SETUP), on_step=ignore)
            assert prepared.details["image_digest"] == engine.inspect_image(image)["Id"]
            with docker.open(spec, prepared) as box:
                assert box.run(Command(line="cat made run.sh ~/flavour")).stdout.kept.splitlines()[::3] == [
                    b"made",
                    b"own",
                ]
                assert {entry.path for entry in box.tree().entries()} > {b"made", b"src/app.py"}
                assert b" /data " not in box.run(Command(line="cat /proc/self/mounts")).stdout.kept
            assert not any(name.endswith("-flat") for name in _names(engine))
            _until(lambda: containers(engine, tmp_path / "state") == [])
        finally:
            engine.run("image", "rm", "--force", image)


class TestDisk:
    """Measured every second, and ended when over: so the result names the limit, and is the candidate's own."""

    @pytest.mark.req("R-06")
    @pytest.mark.parametrize(
        "line, why",
        [
            ("for i in $(seq 40); do head -c 10M /dev/zero > f$i; done; sleep 60", "disk limit of 64 MB"),
            (
                "python3 -c \"for i in range(40000): open(f'f{i}', 'w').close()\"; sleep 60",
                "more than its limit of 20000",
            ),
            (
                _HOLDS_NAMELESS,
                "disk limit of 64 MB",
            ),
        ],
    )
    def test_container_over_its_limit_is_ended(self, docker: DockerBackend, source: Path, line: str, why: str) -> None:
        with docker.open(SPEC, None) as box:
            done = box.run(Command(line=line, timeout_sec=60))
            assert done.exit_code == 137
            assert why in done.stderr.kept.decode()
            assert why in box.run(Command(line="true")).stderr.kept.decode()
            with pytest.raises(PatchInvalid, match="cannot read"):
                list(box.tree().entries())
            with pytest.raises(PatchInvalid, match="cannot be written"):
                box.write_files([FileWrite(b"x", b"x")])


@pytest.mark.req("R-06")
def test_hard_disk_limit_for_those_who_require_it(docker: DockerBackend, source: Path) -> None:
    assert docker.limits().on_request == ("disk",)
    prepared = docker.prepare(plan(source, "echo made > made; echo x > ~/home"), SETUP, on_step=ignore)
    with docker.open(replace(SPEC, hard_disk=True), prepared) as box:
        assert (
            box.run(Command(line="cat made ~/home; python -c 'print(1)'; ./run.sh")).stdout.kept == b"made\nx\n1\nran\n"
        )
        assert list(box.tree().entries()) == list(prepared.base_tree.entries())
        fill = Command(line="for i in 1 2 3 4 5 6; do head -c 30M /dev/zero > f$i || exit 9; done", timeout_sec=60)
        done = box.run(fill)
        assert (done.exit_code, done.oom) == (9, False)
        assert b"No space left" in done.stderr.kept
        assert box.run(Command(line="rm f*; echo x > /etc/x; echo x > /var/x; echo alive")).stdout.kept == b"alive\n"
        used = box.usage().disk_mb
        assert used is not None
        assert used < 5
    with docker.open(replace(SPEC, hard_disk=True, workdir="/home/agent/deep/project"), None) as box:
        assert box.run(Command(line="pwd; touch x; ls")).stdout.kept == b"/home/agent/deep/project\nx\n"


class TestTree:
    def test_all_that_a_tree_can_have(self, backend: DockerBackend, prepared: Prepared) -> None:
        code = (
            "import os\n"
            "open(b'caf\\xe9', 'w').write('latin'); open('new\\nline', 'w').write('x'); os.mkfifo('fifo')\n"
            "os.makedirs('many'); [open(f'many/{i:05}', 'w').close() for i in range(6000)]\n"
            "os.makedirs('locked/in'); open('locked/in/file', 'w').write('seen'); os.chmod('locked/in/file', 0)\n"
            "os.chmod('locked/in', 0); os.chmod('locked', 0)\n"
            "os.symlink('/etc', 'out'); os.makedirs('/'.join(['d'] * 300)); open('/'.join(['d'] * 300 + ['f']), 'w').close()\n"
            "open('big', 'wb').write(os.urandom(3 << 20))\n"
        )
        with backend.open(SPEC, prepared) as box:
            assert box.run(Command(argv=("python3", "-c", code))).ok
            entries = {entry.path: entry for entry in box.tree().entries()}
            assert list(entries) == sorted(entries)
            assert entries[b"fifo"].kind is Kind.SPECIAL
            assert entries[b"caf\xe9"].size == 5
            assert b"new\nline" in entries
            assert b"locked/in/file" in entries
            assert sum(path.startswith(b"many/") for path in entries) == 6000
            assert b"/".join([b"d"] * 300 + [b"f"]) in entries
            tree = box.tree()
            assert tree.read(b"locked/in/file", max_bytes=10) == b"seen"
            assert tree.read(b"out", max_bytes=10) == b"/etc"
            assert len(tree.read(b"big", max_bytes=4 << 20)) == 3 << 20
            for path, error in (
                (b"out/passwd", NotADirectoryError),
                (b"absent", FileNotFoundError),
                (b"many", IsADirectoryError),
                (b"../etc/passwd", FileNotFoundError),
            ):
                with pytest.raises(error):
                    tree.read(path, max_bytes=10)

    def test_every_way_to_change_a_file_is_seen(self, backend: DockerBackend, prepared: Prepared) -> None:
        """Files that were never touched are not read again; nothing that was may be taken for one of them."""
        before = {entry.path: entry for entry in prepared.base_tree.entries()}
        ways = [
            "cp -p README saved; echo other > README; touch -r saved README; rm saved",
            "python3 -c \"import mmap; f = open('README', 'r+b'); m = mmap.mmap(f.fileno(), 4); m[:4] = b'READ'\"",
            "chmod +x README",
            "mv README x && cp x README && echo y >> README && mv -f README z && mv z README && rm x",
            "mv src other && mkdir src && cp other/app.py src/app.py && echo >> src/app.py && rm -r other",
            "ln README hard && echo more >> hard && rm hard",
            "mv keep keep2 && mv src keep && mv keep2 src && touch src/app.py keep/file",
        ]
        for way in ways:
            with backend.open(SPEC, prepared) as box:
                assert box.run(Command(line=way)).ok, way
                now = {entry.path: entry for entry in box.tree().entries()}
                assert now != before, way
                assert now == {entry.path: entry for entry in box.tree_at("/workspace").entries()}, way  # type: ignore[attr-defined]


@pytest.mark.req("R-06")
def test_containers_carry_the_name_of_their_run(docker: DockerBackend, engine: Engine) -> None:
    monitored = SampledBackend(docker, lambda *_: None, labels={"run": "run-of-this-test"})
    with monitored.open(replace(SPEC, labels={"task": "a-task"}), None) as box:
        found = json.loads(engine.output("inspect", "--format", "{{json .Config.Labels}}", box.id))
        assert (found["agentbench.run"], found["agentbench.task"]) == ("run-of-this-test", "a-task")
        assert found[labels.KIND] == "agent"


class TestEnds:
    def test_closing_leaves_no_container(self, docker: DockerBackend, engine: Engine, tmp_path: Path) -> None:
        with docker.open(SPEC, None) as box:
            box.start(Command(line="sleep 300"))
            assert len(containers(engine, tmp_path / "state")) == 1
        docker.close()
        assert containers(engine, tmp_path / "state") == []
        assert list((tmp_path / "state/live").iterdir()) == []

    @pytest.mark.req("R-16")
    def test_killed_harness_leaves_nothing_after_the_next_start(self, engine: Engine, tmp_path: Path) -> None:
        state = tmp_path / "state"
        code = (
            "import sys, time\nfrom pathlib import Path\n"
            "from agentbench.sandbox.docker.backend import DockerBackend\n"
            "from agentbench.sandbox.protocol import Limits, Phase, SandboxSpec\n"
            "from agentbench.core.command import Command\n"
            "backend = DockerBackend(Path(sys.argv[1]))\n"
            "with backend.open(SandboxSpec(Phase.AGENT, Limits(memory_mb=128, disk_mb=32)), None) as box:\n"
            "    box.start(Command(line='setsid sleep 313.7 & sleep 313.7', timeout_sec=300))\n"
            "    print('up', flush=True)\n"
            "    time.sleep(300)\n"
        )
        harness = subprocess.Popen([sys.executable, "-c", code, str(state)], stdout=subprocess.PIPE)
        try:
            assert harness.stdout is not None
            assert harness.stdout.readline() == b"up\n"
        finally:
            harness.send_signal(signal.SIGKILL)
            harness.wait()
            if harness.stdout is not None:
                harness.stdout.close()
        DockerBackend(state, engine).close()
        _until(lambda: not _processes(b"313.7") and not _processes(str(labels.state_hash(state)).encode()))
        # The engine takes a container off its list a moment after its processes are gone.
        _until(lambda: containers(engine, state) == [])
        assert list((state / "live").iterdir()) == []

    def test_killed_harness_takes_the_build_of_its_dockerfile_along(self, engine: Engine) -> None:
        runner = engine.output("image", "ls", "--quiet", "agentbench/py-runner").split()[0]
        mark = f"4711.{os.getpid()}"
        code = (
            "from agentbench.sandbox.docker.engine import find_engine\n"
            f"text = b'FROM {runner}\\nRUN sleep {mark}\\n'\n"
            "find_engine().run('build', '--network', 'none', '--force-rm', '-', stdin=text, timeout_sec=300, die_with_parent=True)"
        )
        harness = subprocess.Popen([sys.executable, "-c", code])
        try:
            _until(lambda: bool(_processes(f"sleep\0{mark}".encode())), 60)
        finally:
            harness.kill()
            harness.wait()
        _until(lambda: _processes(f"sleep\0{mark}".encode()) == [])

    def test_container_removed_behind_our_back_is_ours(
        self, docker: DockerBackend, engine: Engine, tmp_path: Path
    ) -> None:
        with docker.open(SPEC, None) as box:
            engine.output("kill", *containers(engine, tmp_path / "state"))
            with pytest.raises(SandboxError, match="ended unexpectedly"):
                box.run(Command(line="true"))

    def test_other_owners_containers_are_not_touched(
        self, docker: DockerBackend, engine: Engine, tmp_path: Path
    ) -> None:
        with docker.open(SPEC, None) as box:
            DockerBackend(tmp_path / "state", engine).close()
            assert box.run(Command(line="echo alive")).stdout.kept == b"alive\n"

    def test_what_a_living_harness_makes_ready_is_not_touched_and_a_dead_ones_is(
        self, docker: DockerBackend, engine: Engine, tmp_path: Path
    ) -> None:
        state = f"{labels.STATE}={labels.state_hash(tmp_path / 'state')}"
        image = engine.output("image", "ls", "--quiet", "agentbench/py-runner").split()[0]
        made = {}
        for who, owner in (("living", next((tmp_path / "state/live").iterdir()).name), ("dead", "01dead")):
            options = ["--label", state, "--label", f"{labels.OWNER}={owner}", "--network", "none"]
            made[who] = engine.output("create", *options, image, "true")
        DockerBackend(tmp_path / "state", engine).close()
        assert containers(engine, tmp_path / "state") == [made["living"]]
        engine.output("rm", made["living"])


class TestEngine:
    @pytest.mark.req("R-05")
    def test_no_engine_is_exit_3_with_the_command(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        require_docker()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        with pytest.raises(SandboxUnavailable, match="no docker engine is running") as caught:
            open_backend("docker", state=tmp_path, needs_image=False)
        assert caught.value.exit_code == 3
        assert "docker-engine start" in caught.value.remedy
        with pytest.raises(SandboxUnavailable, match="names an image, which requires docker") as caught:
            open_backend("auto", state=tmp_path, needs_image=True)
        assert "--sandbox bwrap" in caught.value.remedy

    def test_no_docker_at_all(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(SandboxUnavailable, match="docker is not installed"):
            open_backend("docker", state=tmp_path, needs_image=False)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
    def test_no_permission_names_the_remedy(self, engine: Engine, tmp_path: Path) -> None:
        program = tmp_path / "docker"
        program.write_text(
            "#!/bin/sh\necho 'permission denied while trying to connect to the Docker daemon socket at unix:///x' >&2\nexit 1\n"
        )
        program.chmod(0o755)
        with pytest.raises(SandboxUnavailable, match="no permission") as caught:
            Engine(str(program))
        assert "usermod -aG docker" in caught.value.remedy

    def test_engine_elsewhere_is_refused(self, monkeypatch: pytest.MonkeyPatch, engine: Engine, tmp_path: Path) -> None:
        remote = replace(engine.facts, address="ssh://user@example.invalid")
        monkeypatch.setattr(engine, "facts", remote)
        with pytest.raises(SandboxUnavailable, match="another machine"):
            DockerBackend(tmp_path, engine)


def _from(image: str) -> bytes:
    return f"FROM {image}\nENV MINE=yes\n".encode()


def _busybox_root() -> bytes:
    program = shutil.which("busybox")
    if program is None:
        pytest.skip("no busybox on this machine to make a docker image of")
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    if "not a dynamic executable" not in linked.stderr + linked.stdout:
        pytest.skip("the busybox on this machine is linked with a libc: no docker image can be made of it alone")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _folder(tar, "bin")
        tar.add(Path(program).resolve(), "bin/busybox")
        listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
        for name in sorted(set(listed) - {"busybox"}):
            info = tarfile.TarInfo(f"bin/{name}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(info)
    return buffer.getvalue()


def _folder(tar: tarfile.TarFile, name: str) -> None:
    """Folders that an archive does not name are their owner's alone in some engines."""
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(info)


def _bare_root(*, with_shell: bool) -> bytes:
    """A root without Python: a shell with what it is linked with, or nothing at all."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        if with_shell:
            linked = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout
            paths = [Path(path) for path in ["/bin/sh", *re.findall(r"(/\S+) \(0x", linked)]]
            for folder in sorted({parent for path in paths for parent in path.parents} - {Path("/")}):
                _folder(tar, str(folder)[1:])
            for path in paths:
                tar.add(path.resolve(), str(path)[1:])
    return buffer.getvalue()


def _names(engine: Engine) -> list[str]:
    return engine.output("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split()


def _until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    limit = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.05)


def _processes(words: bytes) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if words in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found
