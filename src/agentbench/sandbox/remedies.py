"""Why a sandbox does not start on some hosts, and what to do about it."""

from __future__ import annotations

import os
from pathlib import Path

_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_DEBIAN_SWITCH = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MAXIMUM = Path("/proc/sys/user/max_user_namespaces")

_RESTRICTED = "AppArmor restricts unprivileged user namespaces here (Ubuntu 23.10 and newer)"
_SWITCH = "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
# As root only bubblewrap makes such a namespace, and Ubuntu has a profile for it. An ordinary user's first one is made by
# the harness's own interpreter, which no profile of the distribution knows.
_ROOTS_PROFILE = (
    "allow them for bubblewrap (`apt-get install apparmor-profiles`; `install -m 0644 "
    "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/`; `apparmor_parser -r "
    f"/etc/apparmor.d/bwrap-userns-restrict`), or for everybody: {_SWITCH}"
)
_USERS_SWITCH = f"allow them (as root): {_SWITCH}, in /etc/sysctl.d to keep it; or run as root, or use --sandbox docker"

INSTALL_BWRAP = "install it: `apt-get install bubblewrap` (Debian, Ubuntu), `dnf install bubblewrap` (Fedora)"


def user_namespace_remedy(root: Path = Path("/")) -> str:
    """The remedy when this host restricts unprivileged user namespaces, else nothing."""
    if _read(root, _MAXIMUM) == "0":
        return "user namespaces are turned off here: `sysctl -w user.max_user_namespaces=15000`"
    if _read(root, _DEBIAN_SWITCH) == "0":
        return "unprivileged user namespaces are turned off here: `sysctl -w kernel.unprivileged_userns_clone=1`"
    if _read(root, _APPARMOR) == "1":
        return f"{_RESTRICTED}: {_ROOTS_PROFILE if os.geteuid() == 0 else _USERS_SWITCH}"
    return ""


def start_failure_remedy(said: str, root: Path = Path("/")) -> str:
    """The remedy that fits what the kernel or bubblewrap said when a sandbox did not start."""
    text = said.lower()
    if "mount overlay" in text:
        return (
            "overlay mounts are refused here: load the module (`modprobe overlay`); without root they need Linux 5.11"
        )
    refused = "permission denied" in text or "operation not permitted" in text
    if any(word in text for word in ("unshare", "uid map", "namespace", "loopback")) or ("mount" in text and refused):
        general = "in a container, start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
        return user_namespace_remedy(root) or f"this host refuses new namespaces; {general}"
    if "no space left" in text or "cannot allocate memory" in text:
        return "free memory or disk, or lower disk_limit_mb and mem_limit_mb of the task"
    return "`ab doctor` looks for the cause"


def _read(root: Path, path: Path) -> str:
    try:
        return (root / path.relative_to("/")).read_text().strip()
    except OSError:
        return ""
