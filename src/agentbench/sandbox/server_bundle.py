"""The command server as one file, compiled for the interpreter that will run it.

Its modules are joined because each import slows a sandbox's start, and compiled in advance because compiling takes
longer than everything else that the server does before it is ready.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from agentbench.core.canonical import sha256_hex
from agentbench.core.errors import SandboxError
from agentbench.process import run_host
from agentbench.sandbox.environments.interpreter import Interpreter

_MODULES = ("capture", "job", "process_tree", "exec_observer", "server")
_OWN_IMPORT = re.compile(r"^from agentbench\.sandbox\.server\.\w+ import (\([^)]*\)|[^\n(]*)\n", re.MULTILINE)
_FUTURE = "from __future__ import annotations\n"
_COMPILE = (
    "import sys, py_compile\n"
    "for i in range(1, len(sys.argv), 2):\n"
    "    py_compile.compile(sys.argv[i], sys.argv[i + 1], 'agentbench', doraise=True, optimize=2, "
    "invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)\n"
)


def module_source(name: str) -> str:
    return (resources.files("agentbench.sandbox.server") / f"{name}.py").read_text(encoding="utf-8")


def server_source() -> str:
    """Return all modules of the server as one module."""
    return _join(*_MODULES)


def walker_source() -> str:
    return _join("capture", "walker")


def _join(*modules: str) -> str:
    parts = [_FUTURE]
    for name in modules:
        text = _OWN_IMPORT.sub("", module_source(name))
        parts.append(text.replace(_FUTURE, "", 1))
    return "\n".join(parts)


def bundle_digest() -> str:
    return sha256_hex((server_source() + module_source("writer")).encode())


def compile_server(interpreter: Interpreter, folder: Path) -> None:
    """Compile `server.pyc` and `writer.pyc` into `folder`.

    Raises:
        SandboxError: the interpreter cannot compile them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    argv = [interpreter.executable, "-I", "-c", _COMPILE]
    for name, text in (("server", server_source()), ("writer", module_source("writer"))):
        source = folder / f"{name}.src"
        source.write_text(text)
        argv += [str(source), str(folder / f"{name}.pyc")]
    completed = run_host(argv, env={}, timeout_sec=60)
    for name in ("server", "writer"):
        (folder / f"{name}.src").unlink()
    if not completed.ok:
        stderr = completed.stderr.text
        raise SandboxError(f"{interpreter.executable} cannot compile the command server: {stderr}")
