"""Prepares an image for sandboxes: adds the user, folders, command server and venv.

Runs once, as root and without network, in a container of that image. `sys.argv[1]` is a JSON object with names and
paths; prints one line of JSON that describes the image.
"""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import sys


def main() -> None:
    options = json.loads(sys.argv[1])
    uid, home, env, here = options["uid"], options["home"], options["env"], options["here"]
    name = add_user(uid, home)
    for folder in (home, options["workdir"]):
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
    os.chmod(here, 0o755)  # noqa: S103 - readable by the sandbox's user, writable by root only
    carried = "launch" in options
    had_env = os.path.exists(os.path.join(env, "pyvenv.cfg"))
    if not had_env and carried:
        os.makedirs(os.path.join(env, "bin"), exist_ok=True)  # the bundled interpreter is only for the command server
    elif not had_env:
        make_environment(env)
    change_owner(env, uid)
    os.unlink(os.path.abspath(__file__))
    description = {
        "launch": options.get("launch") or [os.path.realpath(sys.executable)],
        "carried": carried,
        "version": sys.version.split()[0],
        "user": name,
        "env": "the image's" if had_env else "made",
        "pip": pip_version(env),
        "os": os_release(),
    }
    sys.stdout.write(json.dumps(description) + "\n")


def add_user(uid: int, home: str) -> str:
    """Add the user if no other has its uid, and return the name."""
    name_of_id("/etc/group", uid, f"agent:x:{uid}:\n")
    return name_of_id("/etc/passwd", uid, f"agent:x:{uid}:{uid}:agent:{home}:/bin/sh\n")


def name_of_id(path: str, number: int, line: str) -> str:
    """Return the name with this id in a passwd or group file. Append `line` if there is none."""
    try:
        with open(path) as file:
            entries = [entry.split(":") for entry in file.read().splitlines()]
    except OSError:
        entries = []
    for fields in entries:
        if len(fields) > 2 and fields[2] == str(number):
            return fields[0]
    with open(path, "a") as file:
        file.write(line)
    return "agent"


def make_environment(env: str) -> None:
    """Create a venv that also sees the packages that the image installed for its interpreter."""
    try:
        import venv  # noqa: PLC0415 - some distributions omit it
    except ImportError:
        os.makedirs(os.path.join(env, "bin"))
        return
    try:
        venv.create(env, system_site_packages=True, with_pip=True)
    except (Exception, SystemExit):  # noqa: BLE001 - parts may be missing, and Debian's ensurepip exits
        shutil.rmtree(env, ignore_errors=True)
        venv.create(env, system_site_packages=True, symlinks=True)


def change_owner(top: str, uid: int) -> None:
    # Skips files that the user owns already: on an overlay every chown copies the file into the new layer.
    paths = [top]
    for folder, folders, files in os.walk(top):
        paths += [os.path.join(folder, item) for item in folders + files]
    for path in paths:
        if os.lstat(path).st_uid != uid:
            os.chown(path, uid, uid, follow_symlinks=False)


def pip_version(env: str) -> str:
    from importlib import metadata  # noqa: PLC0415 - not needed in every image

    site = os.path.join(env, "lib", f"python{sys.version_info[0]}.{sys.version_info[1]}", "site-packages")
    versions = [distribution.version for distribution in metadata.distributions(name="pip", path=[site])]
    return versions[0] if versions else "absent"


def os_release() -> dict[str, str]:
    release = {}
    try:
        with open("/etc/os-release") as file:
            for line in file:
                key, _, value = line.strip().partition("=")
                if key in ("ID", "VERSION_ID"):
                    release[key.lower()] = value.strip('"')
    except OSError:
        pass
    return release


if __name__ == "__main__":
    main()
