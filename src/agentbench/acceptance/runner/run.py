"""Runs pytest for a check, inside the grading sandbox and outside the workspace.

Started as `python -s -S run.py`. The job comes as JSON on stdin, results leave on descriptor $AB_RESULT_FD, and the
exit status is the one that the job asks for. Needs only the standard library and pytest, on Python 3.8 or later, and
nothing of the harness. `-S` because this file starts `site` itself: the `.pth` file of an editable install makes the
workspace importable, and an ordinary start would then run a `sitecustomize` that a patch put there.
"""

# Paths are the strings that sys.path holds.
# ruff: noqa: PTH100, PTH109, PTH112, PTH118, PTH120
from __future__ import annotations

import builtins
import gc
import importlib.machinery
import importlib.util
import json
import os
import sys
import types
from collections.abc import Callable
from typing import Any

# Fix the meaning of every builtin now: code under test can replace it for everybody else. Each file of the runner
# gets its own copy, so that code that reaches one file has not reached the others.
BUILTINS = dict(vars(builtins))
globals()["__builtins__"] = dict(BUILTINS)
PYTEST_CALL: list[Any] = []
"""Arguments of `pytest.main`, until it is called."""


def start_site(workspace: str) -> list[str]:
    """Initialise `site` without a `sitecustomize` of the workspace. Return the import paths outside the workspace."""
    import site  # noqa: PLC0415 - under -S the import alone does nothing

    del sys.path[0]  # the folder of this file
    sys.modules["sitecustomize"] = types.ModuleType("sitecustomize")
    site.main()
    del sys.modules["sitecustomize"]
    site_packages = [os.path.realpath(path) for path in site.getsitepackages()]
    trusted_paths = [
        path for path in sys.path if not _is_within(path, workspace) or os.path.realpath(path) in site_packages
    ]
    if importlib.machinery.PathFinder.find_spec("sitecustomize", trusted_paths) is not None:
        saved, sys.path[:] = sys.path[:], trusted_paths
        __import__("sitecustomize")
        sys.path[:] = saved
    return trusted_paths


def _is_within(path: str, folder: str) -> bool:
    return os.path.realpath(path).startswith(os.path.realpath(folder).rstrip("/") + "/") or os.path.realpath(
        path
    ) == os.path.realpath(folder)


def importable_names(paths: list[str]) -> list[str]:
    """Return the top-level names that can be imported from `paths`."""
    names = set(getattr(sys, "stdlib_module_names", sys.builtin_module_names))
    for path in paths:
        if not os.path.isdir(path):
            continue
        for entry in os.scandir(path):
            name = entry.name.split(".")[0]
            if name.isidentifier() and (entry.is_dir() or entry.name.endswith((".py", ".so"))):
                names.add(name)
    return sorted(names)


def load(name: str) -> types.ModuleType:
    """Load a file of this folder without listing it in `sys.modules`, where code under test would find it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")
    spec = importlib.util.spec_from_file_location("_" + os.urandom(6).hex(), path)
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        raise ImportError(path)
    code = spec.loader.get_code(spec.name)
    if code is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    vars(module)["__builtins__"] = dict(BUILTINS)
    exec(code, vars(module))  # noqa: S102
    return module


def install_main_module(pytest: types.ModuleType) -> None:
    """Install the `__main__` that `python -m pytest` would have: processes started by tests look at it."""
    main = types.ModuleType("__main__")
    if hasattr(pytest, "__path__"):
        main.__spec__ = importlib.util.find_spec("pytest.__main__")
        main.__file__ = os.path.join(os.path.dirname(pytest.__file__ or ""), "__main__.py")
    else:  # a single module before pytest 5.4
        main.__spec__ = importlib.util.find_spec("pytest")
        main.__file__ = pytest.__file__
    sys.modules["__main__"] = main


def prepare() -> Callable[..., int]:
    """Do everything that comes before pytest. Return the function to call when pytest is done.

    The arguments for pytest are left in `PYTEST_CALL`. Everything that must not be found is local to this function, so
    that no frame holds it while code under test runs.
    """
    job = json.loads(sys.stdin.buffer.read())
    status = int(job.pop("exit"))
    sys.dont_write_bytecode = True
    channel = load("channel")
    seal, send = channel.seal, channel.open_channel(job.pop("nonce"))
    send("start", sys.version.split()[0])
    trusted_paths = start_site(job["workspace"])
    sys.meta_path.insert(0, load("finder").PinnedFinder(job["pinned"], job["absent"], trusted_paths))
    try:
        import pytest  # noqa: PLC0415
    except ImportError as error:
        send("no_pytest", str(error)[:500])
        return seal(lambda *_: status)  # type: ignore[no-any-return]
    os.chdir(job["cwd"])
    pins, session, reentrancy_guard = load("pins"), load("session"), load("reentrancy_guard")
    pytest_plugin = load("pytest_plugin")
    pins.ignore_bytecode(job["workspace"], trusted_paths)
    if job["mode"] == "survey":
        send("names", importable_names(trusted_paths))
        base_interpreter = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        send(
            "python",
            base_interpreter,
            os.path.dirname(sys.executable),
            [path for path in trusted_paths if "-packages" in path],
        )
        send("plugins", pins.installed_plugins(trusted_paths))
    import_path = [os.getcwd()] if job["module"] else []
    sys.path[:0] = import_path + [os.path.abspath(path) for path in job["pythonpath"]]
    os.environ.update(job["env"])
    install_main_module(pytest)
    monitor = start_monitoring(job, send, reentrancy_guard, seal, trusted_paths)
    recorder = session.Recorder(job, send, monitor)
    recorder.undo = [pins.pin_distributions(job, trusted_paths), pins.pin_configuration(job)]
    pins.pin_rewriting(job, trusted_paths)
    callbacks = {
        name: reentrancy_guard.guard(callback, seal, recorder.callback_failed)
        for name, callback in recorder.callbacks().items()
    }
    survey = job["mode"] == "survey"
    plugin = pytest_plugin.make_plugin(
        callbacks, job["canary"], frozenset(job["only"]), frozenset(job["named"]), survey=survey
    )
    PYTEST_CALL[:] = [session.pytest_arguments(job), [plugin]]

    gc.freeze()
    gc.enable()

    def leave(ended: int | None, crash: str, kind: str) -> int:
        recorder.end(ended, crash, kind)
        return status

    return seal(leave)  # type: ignore[no-any-return]


def start_monitoring(
    job: dict[str, Any],
    send: Any,  # noqa: ANN401
    reentrancy_guard: types.ModuleType,
    seal: Any,  # noqa: ANN401
    trusted_paths: list[str],
) -> Any:  # noqa: ANN401
    """Start monitoring. Return the runner monitor."""
    runner_monitor, audit_hook, genuine_code = load("runner_monitor"), load("audit_hook"), load("genuine_code")
    runner_folder = os.path.dirname(os.path.abspath(__file__))
    monitor = runner_monitor.RunnerMonitor(job["workspace"], job["replaced"])
    files = load("files").Files()
    genuine = genuine_code.GenuineCode(job, runner_folder, runner_monitor.is_test, trusted_paths, files)
    audit_monitor = audit_hook.AuditMonitor(send, job, genuine, files)

    def failed(reason: str) -> None:
        send("changed", [f"harness runner: {reason}"])

    sys.addaudithook(audit_hook.make_audit_hook(reentrancy_guard.guard(audit_monitor.handle_event, seal, failed)))
    return monitor


def run() -> tuple[int | None, str, str]:
    """Run pytest. Return its exit status, or the message and type of the exception that ended it."""
    if not PYTEST_CALL:
        return None, "", ""
    import pytest  # noqa: PLC0415

    try:
        return int(pytest.main(PYTEST_CALL.pop(0), plugins=PYTEST_CALL.pop(0))), "", ""
    except BaseException as error:  # noqa: BLE001 - SystemExit of a conftest is reported, not obeyed
        try:
            message = "".join(str(error))[:1000]
        except BaseException:  # noqa: BLE001 - the error may belong to code under test
            message = ""
        return None, message, type(error).__name__
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # noqa: BLE001, S112 - the stream may belong to code under test
                continue


def main() -> int:
    # The function that `prepare` returns gets no name: no frame shows it until pytest is done.
    return prepare()(*run())


if __name__ == "__main__":
    gc.disable()  # what is loaded before the tests stays, so looking for garbage in it is lost time
    # Skip exit handlers: those that the code under test registered must not change the status.
    os._exit(main())
