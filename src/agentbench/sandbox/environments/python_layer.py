"""Build an interpreter's own layer: a virtual environment with pip at a fixed path."""

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


def binds(python: Interpreter) -> list[tuple[Path, str]]:
    """Return the host files that `build` needs in its sandbox: a pip for interpreters that come without one."""
    if python.has_pip and python.has_venv:
        return []
    wheel = _pip_wheel()
    if wheel is not None:
        return [(wheel, f"{_WHEELS}/{wheel.name}")]
    return [(folder, f"{_WHEELS}/{folder.name}") for folder in _installed_pip()]


def build(sandbox: Sandbox, python: Interpreter, visible: Sequence[tuple[Path, str]]) -> str:
    """Create the environment in a sandbox that sees `binds`, and return the source of its pip.

    Raises:
        SandboxError: a command failed.
    """
    if python.has_venv and python.has_pip:
        _run(sandbox, python.executable, "-I", "-m", "venv", ENV_DIR)
        return "ensurepip"
    if python.has_venv:
        _run(sandbox, python.executable, "-I", "-m", "venv", "--without-pip", ENV_DIR)
    else:
        _create_without_venv(sandbox, python)
    if not visible:
        return "none"
    inner = f"{ENV_DIR}/bin/python"
    target = visible[0][1]
    if target.endswith(".whl"):
        _run(sandbox, inner, f"{target}/pip", "install", "--no-index", "--no-deps", "--no-cache-dir", target)
        return Path(target).name
    site = f"{ENV_DIR}/lib/python{python.short}/site-packages"
    _run(sandbox, "cp", "-r", *(target for _, target in visible), site)
    _run(sandbox, inner, "-m", "pip", "--version")
    script = f"#!{inner}\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
    write = "import sys, os; [open(p, 'w').write(sys.argv[1]) and os.chmod(p, 0o755) for p in sys.argv[2:]]"
    _run(sandbox, inner, "-c", write, script, f"{ENV_DIR}/bin/pip", f"{ENV_DIR}/bin/pip3")
    return "copied from the harness"


def _pip_wheel() -> Path | None:
    """Return a pip wheel of this host, which can be installed without network."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    folders = [Path(sys.base_prefix) / "lib" / version / "ensurepip/_bundled", Path("/usr/share/python-wheels")]
    folders += sorted(Path("/usr/lib").glob("python3*/ensurepip/_bundled"), reverse=True)
    for folder in folders:
        for wheel in sorted(folder.glob("pip-*.whl"), reverse=True):
            return wheel
    return None


def _installed_pip() -> list[Path]:
    """Return the folders of the harness's own pip."""
    from importlib import metadata  # noqa: PLC0415 - slow to load and rarely needed

    try:
        files = metadata.distribution("pip").files or []
    except metadata.PackageNotFoundError:
        return []
    tops = dict.fromkeys(Path(str(file.locate())).parents[len(file.parts) - 2] for file in files if len(file.parts) > 1)
    return [top for top in tops if top.name == "pip" or top.name.startswith("pip-")]


def _create_without_venv(sandbox: Sandbox, python: Interpreter) -> None:
    """Create the files of a virtual environment for an interpreter that has no venv module."""
    config = f"home = {Path(python.executable).parent}\ninclude-system-site-packages = false\nversion = {python.full}\n"
    line = (
        f"mkdir -p bin include lib/python{python.short}/site-packages && ln -s {python.executable} bin/python && "
        f"ln -s python bin/python3 && ln -s python bin/python{python.short} && ln -s lib lib64 && cat > pyvenv.cfg"
    )
    _check(sandbox.run(Command(line=line, cwd=ENV_DIR, stdin=config.encode(), timeout_sec=_BUILD_SEC)), line)


def _run(sandbox: Sandbox, *argv: str) -> None:
    _check(sandbox.run(Command(argv=argv, cwd="/", timeout_sec=_BUILD_SEC)), " ".join(argv))


def _check(done: Completed, command: str) -> None:
    if not done.ok:
        output = (done.stderr.kept or done.stdout.kept).decode("utf-8", "replace").strip()[-1500:]
        raise SandboxError(
            f"cannot build the sandbox's Python environment: `{command}` failed (exit code {done.exit_code}): {output}"
        )
