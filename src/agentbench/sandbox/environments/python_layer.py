"""The base layer of an interpreter: a virtual environment with pip at the fixed path, built once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from agentbench.core.command import Command, Completed
from agentbench.core.errors import SandboxError
from agentbench.sandbox.environments.interpreter import Interpreter
from agentbench.sandbox.layout import ENV_DIR
from agentbench.sandbox.protocol import Sandbox

_WHEELS = "/opt/agentbench-wheels"
_BUILD_SEC = 300.0


def pip_wheel() -> Path | None:
    """A pip that can be installed without network, for interpreters that come without one (Debian's, for instance)."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    folders = [Path(sys.base_prefix) / "lib" / version / "ensurepip/_bundled", Path("/usr/share/python-wheels")]
    folders += sorted(Path("/usr/lib").glob("python3*/ensurepip/_bundled"), reverse=True)
    for folder in folders:
        for wheel in sorted(folder.glob("pip-*.whl"), reverse=True):
            return wheel
    return None


def installed_pip() -> list[Path]:
    """The harness's own pip as folders to copy, when there is no wheel of it."""
    from importlib import metadata  # noqa: PLC0415 - slow to load and hardly ever needed

    try:
        files = metadata.distribution("pip").files or []
    except metadata.PackageNotFoundError:
        return []
    tops = dict.fromkeys(Path(str(file.locate())).parents[len(file.parts) - 2] for file in files if len(file.parts) > 1)
    return [top for top in tops if top.name == "pip" or top.name.startswith("pip-")]


def binds(python: Interpreter) -> list[tuple[Path, str]]:
    """What building the environment needs to see."""
    if python.has_pip and python.has_venv:
        return []
    wheel = pip_wheel()
    if wheel is not None:
        return [(wheel, f"{_WHEELS}/{wheel.name}")]
    return [(top, f"{_WHEELS}/{top.name}") for top in installed_pip()]


def build(box: Sandbox, python: Interpreter, visible: Sequence[tuple[Path, str]]) -> str:
    """Make the environment in a sandbox; where its pip came from.

    Raises:
        SandboxError: it cannot be made.
    """
    if python.has_venv and python.has_pip:
        _must(box, python.executable, "-I", "-m", "venv", ENV_DIR)
        return "ensurepip"
    if python.has_venv:
        _must(box, python.executable, "-I", "-m", "venv", "--without-pip", ENV_DIR)
    else:
        _bare(box, python)
    if not visible:
        return "none"
    inner = f"{ENV_DIR}/bin/python"
    place = visible[0][1]
    if place.endswith(".whl"):
        _must(box, inner, f"{place}/pip", "install", "--no-index", "--no-deps", "--no-cache-dir", place)
        return Path(place).name
    site = f"{ENV_DIR}/lib/python{python.short}/site-packages"
    _must(box, "cp", "-r", *(target for _, target in visible), site)
    _must(box, inner, "-m", "pip", "--version")
    script = f"#!{inner}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
    write = "import sys, os; [open(p, 'w').write(sys.argv[1]) and os.chmod(p, 0o755) for p in sys.argv[2:]]"
    _must(box, inner, "-c", write, script, f"{ENV_DIR}/bin/pip", f"{ENV_DIR}/bin/pip3")
    return "copied from the harness"


def _bare(box: Sandbox, python: Interpreter) -> None:
    """An interpreter without the venv module: the few files that make an environment."""
    config = f"home = {Path(python.executable).parent}\ninclude-system-site-packages = false\nversion = {python.full}\n"
    line = (
        f"mkdir -p bin include lib/python{python.short}/site-packages && ln -s {python.executable} bin/python && "
        f"ln -s python bin/python3 && ln -s python bin/python{python.short} && ln -s lib lib64 && cat > pyvenv.cfg"
    )
    _check(box.run(Command(line=line, cwd=ENV_DIR, stdin=config.encode(), timeout_sec=_BUILD_SEC)), line)


def _must(box: Sandbox, *argv: str) -> None:
    _check(box.run(Command(argv=argv, cwd="/", timeout_sec=_BUILD_SEC)), " ".join(argv))


def _check(done: Completed, what: str) -> None:
    if not done.ok:
        said = (done.stderr.kept or done.stdout.kept).decode("utf-8", "replace").strip()[-1500:]
        msg = f"the python environment of sandboxes cannot be built: `{what}` ended with {done.exit_code}: {said}"
        raise SandboxError(msg)
