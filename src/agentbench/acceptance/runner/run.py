"""Runs pytest for the oracle, inside the grading sandbox and outside the workspace.

Started as `python -s -S run.py`: the job comes as JSON on stdin, results leave on descriptor $AB_RESULT_FD, the exit
status is the one the job asks for. Needs the standard library and pytest, any Python from 3.8 on, and nothing of the
harness. `-S` because this file starts `site` itself: a `.pth` file of an editable install makes the workspace
importable, and an ordinary start would then run a `sitecustomize` that a patch put there.
"""

# Paths are the strings that sys.path holds.
# ruff: noqa: PTH100, PTH109, PTH112, PTH118, PTH120
from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any

# What a builtin means here is settled now: code under test can give it another meaning for everybody else. Each file of
# ours has a copy of its own, so that whoever comes to one has not come to the others.
BUILTINS = dict(vars(builtins))
globals()["__builtins__"] = dict(BUILTINS)
CALL: list[Any] = []
"""What pytest is called with, until it is called."""


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
    vars(module)["__builtins__"] = dict(BUILTINS)
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


def prepare() -> Callable[..., int]:
    """Everything before pytest; what to call when it has come back. What it is called with is left in `CALL`.

    All that must not be found is in here, so that no frame has it while code under test runs.
    """
    job = json.loads(sys.stdin.buffer.read())
    status = int(job.pop("exit"))
    sys.dont_write_bytecode = True
    channel = load("channel")
    sealed, send = channel.sealed, channel.open_channel(job.pop("nonce"))
    send("start", sys.version.split()[0])
    frozen = start_site(job["workspace"])
    sys.meta_path.insert(0, load("finder").Pinned(job["pinned"], job["absent"], frozen))
    try:
        import pytest  # noqa: PLC0415
    except ImportError as error:
        send("no_pytest", str(error)[:500])
        return sealed(lambda *_: status)  # type: ignore[no-any-return]
    os.chdir(job["cwd"])
    pins, session, quiet = load("pins"), load("session"), load("reentrancy_guard")
    if job["mode"] == "survey":
        send("names", importable(frozen))
        behind = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        send("python", behind, os.path.dirname(sys.executable), [path for path in frozen if "-packages" in path])
        send("plugins", pins.installed_plugins(frozen))
    import_path = [os.getcwd()] if job["module"] else []
    sys.path[:0] = import_path + [os.path.abspath(path) for path in job["pythonpath"]]
    os.environ.update(job["env"])
    become_main(pytest)
    watch, begin = watching(job, send, quiet, sealed)
    recorder = session.Recorder(job, send, watch, begin)
    recorder.undo = [pins.pin_distributions(job, frozen), pins.pin_configuration(job)]
    pins.pin_rewriting(job, frozen)
    ways = {name: quiet.quiet(way, sealed, recorder.failed) for name, way in recorder.ways().items()}
    survey = job["mode"] == "survey"
    plugin, functions = load("pytest_plugin").face(ways, job["canary"], frozenset(job.get("only", ())), survey=survey)
    watch.doors(functions, quiet.quiet.__code__)
    CALL[:] = [session.arguments(job), [plugin]]

    def leave(ended: int | None, crash: str, kind: str) -> int:
        recorder.ended(ended, crash, kind)
        return status

    return sealed(leave)  # type: ignore[no-any-return]


def watching(job: dict[str, Any], send: Any, quiet: types.ModuleType, sealed: Any) -> tuple[Any, Callable[[], None]]:  # noqa: ANN401
    """Listen from now on: whoever looks when asked to, and what to call when tests begin."""
    code_objects = load("code_objects")
    callers, constant_snapshot = load("callers", code_objects=code_objects), load("constant_snapshot")
    sentinel = load("runner_monitor", code_objects=code_objects, callers=callers, constant_snapshot=constant_snapshot)
    witness = load("audit_hook")
    kit = os.path.dirname(os.path.abspath(__file__))
    watch = sentinel.Sentinel(job["workspace"], main.__code__, job["replaced"], job["conftests"])
    ears = witness.Witness(send, job, kit, sentinel.is_test, quiet.wait_for_others, watch.is_genuine)

    def failed(why: str) -> None:
        send("changed", [f"a part of ours: {why}"])

    sys.addaudithook(witness.listening(quiet.quiet(ears.hear, sealed, failed), sealed(quiet.at_work)))
    return watch, ears.begin


def run() -> tuple[int | None, str, str]:
    """Run pytest: its exit status; else what it died of, in words, and of what kind that was."""
    if not CALL:
        return None, "", ""
    import pytest  # noqa: PLC0415

    try:
        return int(pytest.main(CALL.pop(0), plugins=CALL.pop(0))), "", ""
    except BaseException as error:  # noqa: BLE001 - SystemExit of a conftest included: it is told, not obeyed
        try:
            said = "".join(str(error))[:1000]
        except BaseException:  # noqa: BLE001 - it may be anybody's
            said = ""
        return None, said, type(error).__name__
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001, S112 - it may be anybody's
                continue


def main() -> int:
    # What `prepare` gives back has no name: it waits where no frame shows it, until pytest has come back.
    return prepare()(*run())


if __name__ == "__main__":
    # No exit handlers: what the code under test left for the end of the process has no say in the status.
    os._exit(main())
