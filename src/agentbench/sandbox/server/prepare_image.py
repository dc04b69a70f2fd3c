"""Runs once as root in a container of an image that is to hold sandboxes, without network: the user, folders, server, venv.

Prints one line of JSON about what it found. `sys.argv[1]` is that line's input: a JSON object of names and places.
"""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import sys


def main() -> None:
    wanted = json.loads(sys.argv[1])
    uid, home, env, here = wanted["uid"], wanted["home"], wanted["env"], wanted["here"]
    name = add_user(uid, home)
    for folder in (home, wanted["workdir"]):
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, uid, uid)
    for module in ("server", "writer", "walker"):
        source = os.path.join(here, module + ".py")
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        target = os.path.join(here, module + ".pyc")
        py_compile.compile(source, target, "agentbench", doraise=True, optimize=2, invalidation_mode=mode)
        os.unlink(source)
        os.chmod(target, 0o644)
    os.makedirs(os.path.join(here, "link"), exist_ok=True)
    os.chmod(here, 0o755)  # noqa: S103 - to be read by the sandbox's user, written by nobody
    carried = "launch" in wanted
    had_env = os.path.exists(os.path.join(env, "pyvenv.cfg"))
    if not had_env and carried:
        os.makedirs(os.path.join(env, "bin"), exist_ok=True)  # our interpreter is the server's alone
    elif not had_env:
        make_environment(env)
    own(env, uid)
    os.unlink(os.path.abspath(__file__))
    found = {
        "launch": wanted.get("launch") or [os.path.realpath(sys.executable)],
        "carried": carried,
        "version": sys.version.split()[0],
        "user": name,
        "env": "the image's" if had_env else "made",
        "pip": pip_version(env),
        "os": os_release(),
    }
    sys.stdout.write(json.dumps(found) + "\n")


def add_user(uid: int, home: str) -> str:
    """The name of the user, added when nobody has its number."""
    named("/etc/group", uid, f"agent:x:{uid}:\n")
    return named("/etc/passwd", uid, f"agent:x:{uid}:{uid}:agent:{home}:/bin/sh\n")


def named(path: str, number: int, line: str) -> str:
    try:
        with open(path) as file:
            fields = [item.split(":") for item in file.read().splitlines()]
    except OSError:
        fields = []
    for item in fields:
        if len(item) > 2 and item[2] == str(number):
            return item[0]
    with open(path, "a") as file:
        file.write(line)
    return "agent"


def make_environment(env: str) -> None:
    """An environment of the user's own that still sees what the image installed for its interpreter."""
    try:
        import venv  # noqa: PLC0415 - some distributions leave it out
    except ImportError:
        os.makedirs(os.path.join(env, "bin"))
        return
    try:
        venv.create(env, system_site_packages=True, with_pip=True)
    except (Exception, SystemExit):  # noqa: BLE001 - whatever was left out: without pip less is needed. Debian's exits
        shutil.rmtree(env, ignore_errors=True)
        venv.create(env, system_site_packages=True, symlinks=True)


def own(top: str, uid: int) -> None:
    # Only what is not: on an overlay every call copies its file into the new layer.
    paths = [top]
    for folder, folders, files in os.walk(top):
        paths += [os.path.join(folder, item) for item in folders + files]
    for path in paths:
        if os.lstat(path).st_uid != uid:
            os.chown(path, uid, uid, follow_symlinks=False)


def pip_version(env: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - only where an environment is looked at

    site = os.path.join(env, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    found = [item.version for item in metadata.distributions(name="pip", path=[site])]
    return found[0] if found else "absent"


def os_release() -> dict[str, str]:
    found = {}
    try:
        with open("/etc/os-release") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                if key in ("ID", "VERSION_ID"):
                    found[key.lower()] = value.strip('"')
    except OSError:
        pass
    return found


if __name__ == "__main__":
    main()
