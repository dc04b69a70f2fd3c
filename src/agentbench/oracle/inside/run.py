"""Runs pytest for the oracle, inside the grading sandbox and outside the workspace.

Started as `python -s -S run.py`: the job comes as JSON on stdin, results leave on descriptor $AB_RESULT_FD, the exit
status is the one the job asks for. Needs the standard library and pytest, any Python from 3.8 on, and nothing of the
harness. `-S` because this file starts `site` itself: a `.pth` file of an editable install makes the workspace
importable, and an ordinary start would then run a `sitecustomize` that a patch put there.
"""

# Paths are the strings that sys.path holds.
# ruff: noqa: PTH100, PTH109, PTH112, PTH118, PTH120
from __future__ import annotations

import fcntl
import functools
import importlib.machinery
import importlib.util
import itertools
import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any

MANY = 64


def sealed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function behind a callable of the interpreter's own, which shows nobody what it calls.

    A method has `__self__` and a function has cells, and both can be written through. A cache that keeps nothing has
    neither, once its `__wrapped__` is gone; what is left is a search of the memory, and that is heard (`witness.py`).
    """
    shell = functools.lru_cache(maxsize=0)(function)
    vars(shell).clear()
    return shell


def open_channel(nonce: str) -> Callable[..., None]:
    """The way out. Lines carry the job's nonce and a running number, so that foreign lines show."""
    given = int(os.environ.pop("AB_RESULT_FD"))
    descriptor = fcntl.fcntl(given, fcntl.F_DUPFD_CLOEXEC, MANY + os.getpid() % MANY)
    os.close(given)
    # Bound now: a later change of these names reaches us no more.
    write, getpid, dumps, pid, numbers = os.write, os.getpid, json.JSONEncoder().encode, os.getpid(), itertools.count()

    def send(*record: object) -> None:
        """One record. A forked copy of this process has nothing to say."""
        if getpid() != pid:
            return
        data = f"{nonce} {next(numbers)} {dumps(record)}\n".encode("ascii")
        while data:
            data = data[write(descriptor, data) :]

    return sealed(send)


class Pinned:
    """Finds what setup installed where setup installed it, whatever else of that name is on the path."""

    def __init__(self, names: list[str], absent: list[str], paths: list[str]) -> None:
        self._names = frozenset(names)
        self._absent = frozenset(absent)
        self._paths = paths

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if path is not None:
            return None
        if name in self._names:
            return importlib.machinery.PathFinder.find_spec(name, self._paths)
        if name in self._absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def start_site(workspace: str) -> list[str]:
    """Do what an ordinary start does, without `sitecustomize` of the workspace; the paths outside the workspace."""
    import site  # noqa: PLC0415 - under -S it does nothing by itself

    del sys.path[0]  # the folder of this file
    sys.modules["sitecustomize"] = types.ModuleType("sitecustomize")
    site.main()
    del sys.modules["sitecustomize"]
    own = [os.path.realpath(path) for path in site.getsitepackages()]
    frozen = [path for path in sys.path if not _within(path, workspace) or os.path.realpath(path) in own]
    if importlib.machinery.PathFinder.find_spec("sitecustomize", frozen) is not None:
        saved, sys.path[:] = sys.path[:], frozen
        __import__("sitecustomize")
        sys.path[:] = saved
    return frozen


def _within(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder).rstrip("/") + "/") or os.path.realpath(
        path
    ) == os.path.realpath(folder)


def importable(paths: list[str]) -> list[str]:
    """Top-level names that can be imported from `paths`."""
    names = set(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
    for path in paths:
        if not os.path.isdir(path):
            continue
        for entry in os.scandir(path):
            name = entry.name.split(".")[0]
            if name.isidentifier() and (entry.is_dir() or entry.name.endswith((".py", ".so"))):
                names.add(name)
    return sorted(names)


def load(name: str, **parts: types.ModuleType) -> types.ModuleType:
    """A file beside this one, under a name that says nothing. `parts`: what it imports from beside itself.

    All are in the list of modules only while the file is read: what stays there is found by code under test.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    own = "_" + os.urandom(6).hex()
    spec = importlib.util.spec_from_file_location(own, path, submodule_search_locations=[] if parts else None)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    listed = {own: module, **{f"{own}.{part}": found for part, found in parts.items()}} if parts else {}
    sys.modules.update(listed)
    try:
        spec.loader.exec_module(module)
    finally:
        for one in listed:
            del sys.modules[one]
    return module


def become_main(pytest: types.ModuleType) -> None:
    """Leave the `__main__` that `python -m pytest` would have: processes started by tests look at it."""
    main = types.ModuleType("__main__")
    main.__spec__ = importlib.util.find_spec("pytest.__main__")
    main.__file__ = os.path.join(os.path.dirname(pytest.__file__ or ""), "__main__.py")
    sys.modules["__main__"] = main


def prepare() -> tuple[list[str], list[object], Callable[..., int]] | int:
    """Everything before pytest: its arguments, our part of it, and what to call when it has come back.

    All that must not be found is in here, so that no frame has it while code under test runs.
    """
    job = json.loads(sys.stdin.buffer.read())
    status = int(job.pop("exit"))
    sys.dont_write_bytecode = True
    send = open_channel(job.pop("nonce"))
    send("start", sys.version.split()[0])
    frozen = start_site(job["workspace"])
    sys.meta_path.insert(0, Pinned(job["pinned"], job["absent"], frozen))
    try:
        import pytest  # noqa: PLC0415
    except ImportError as error:
        send("no_pytest", str(error)[:500])
        return status
    os.chdir(job["cwd"])
    pins, session, face = load("pins"), load("session"), load("face")
    sentinel, witness = load("sentinel", functions=load("functions")), load("witness")
    if job["mode"] == "survey":
        send("names", importable(frozen))
        behind = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        send("python", behind, os.path.dirname(sys.executable), [path for path in frozen if "-packages" in path])
        send("plugins", pins.installed_plugins(frozen))
    import_path = [os.getcwd()] if job["module"] else []
    sys.path[:0] = import_path + [os.path.abspath(path) for path in job["pythonpath"]]
    os.environ.update(job["env"])
    become_main(pytest)
    kit = os.path.dirname(os.path.abspath(__file__))
    sys.addaudithook(witness.Witness(send, job, kit, sentinel.is_test))
    watch = sentinel.Sentinel(job["workspace"], job["replaced"], job["conftests"])
    recorder = session.Recorder(job, send, watch)
    recorder.undo = [pins.pin_distributions(job, frozen), pins.pin_configuration(job)]
    pins.pin_rewriting(job, frozen)
    plugin, watch.functions = face.face({name: sealed(way) for name, way in recorder.ways().items()})

    def leave(ended: int | None, crash: str, kind: str) -> int:
        recorder.ended(ended, crash, kind)
        return status

    return session.arguments(job), [plugin], sealed(leave)


def run(arguments: list[str], plugins: list[object]) -> tuple[int | None, str, str]:
    """Run pytest: its exit status; else what it died of, in words, and of what kind that was."""
    import pytest  # noqa: PLC0415

    try:
        return int(pytest.main(arguments, plugins=plugins)), "", ""
    except BaseException as error:  # noqa: BLE001 - SystemExit of a conftest included: it is told, not obeyed
        try:
            said = "".join(str(error))[:1000]
        except BaseException:  # noqa: BLE001 - it may be anybody's
            said = ""
        return None, said, type(error).__name__


def main() -> int:
    ready = prepare()
    if isinstance(ready, int):
        return ready
    status: int = ready[2](*run(ready[0], ready[1]))
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # noqa: BLE001, S112 - it may be anybody's
            continue
    return status


if __name__ == "__main__":
    # No exit handlers: what the code under test left for the end of the process has no say in the status.
    os._exit(main())
