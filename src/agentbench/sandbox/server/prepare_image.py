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
    uid, home, env, server_dir = options["uid"], options["home"], options["env"], options["server_dir"]
    add_user(uid, home)
    for folder in (home, options["workdir"]):
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, uid, uid)
    for module in ("server", "writer", "walker"):
        source = os.path.join(server_dir, module + ".py")
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        target = os.path.join(server_dir, module + ".pyc")
        py_compile.compile(source, target, "agentbench", doraise=True, optimize=2, invalidation_mode=mode)
        os.unlink(source)
        os.chmod(target, 0o644)
    os.makedirs(os.path.join(server_dir, "link"), exist_ok=True)
    os.chmod(server_dir, 0o755)  # noqa: S103 - readable by the sandbox's user, writable by root only
    bundled = "launch" in options
    if not os.path.exists(os.path.join(env, "pyvenv.cfg")):
        if bundled:
            # The bundled interpreter is only for the command server.
            os.makedirs(os.path.join(env, "bin"), exist_ok=True)
        else:
            make_environment(env)
    change_owner(env, uid)
    os.unlink(os.path.abspath(__file__))
    description = {
        "launch": options.get("launch") or [os.path.realpath(sys.executable)],
        "bundled": bundled,
        "version": sys.version.split()[0],
        "pip": pip_version(env),
        "os": os_release(),
    }
    sys.stdout.write(json.dumps(description) + "\n")


def add_user(uid: int, home: str) -> None:
    """Add the user and its group, unless others have its id."""
    for path, line in (
        ("/etc/group", f"agent:x:{uid}:\n"),
        ("/etc/passwd", f"agent:x:{uid}:{uid}:agent:{home}:/bin/sh\n"),
    ):
        try:
            with open(path) as file:
                ids = [entry.split(":")[2:3] for entry in file.read().splitlines()]
        except OSError:
            ids = []
        if [str(uid)] not in ids:
            with open(path, "a") as file:
                file.write(line)


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
