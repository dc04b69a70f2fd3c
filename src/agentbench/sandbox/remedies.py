"""Remedies for hosts on which a sandbox does not start."""

from __future__ import annotations

import os
from pathlib import Path

from agentbench.sandbox.cgroups import read_text

_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_DEBIAN_SWITCH = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MAXIMUM = Path("/proc/sys/user/max_user_namespaces")

_RESTRICTED = "AppArmor restricts unprivileged user namespaces (default since Ubuntu 23.10)"
_SYSCTL = "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
# As root, only bubblewrap creates such a namespace, and Ubuntu ships a profile for it. For an ordinary user, the
# harness's interpreter creates the first one, and no profile of the distribution covers that.
_REMEDY_AS_ROOT = (
    "allow them for bubblewrap (`apt-get install apparmor-profiles`; `install -m 0644 "
    "/usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/`; `apparmor_parser -r "
    f"/etc/apparmor.d/bwrap-userns-restrict`) or for all programs: {_SYSCTL}"
)
_REMEDY_AS_USER = (
    f"allow them as root: {_SYSCTL} (permanently: in /etc/sysctl.d), run ab as root, or use --sandbox docker"
)

INSTALL_BWRAP = "install it: `apt-get install bubblewrap` (Debian, Ubuntu) or `dnf install bubblewrap` (Fedora)"


def user_namespace_remedy(root: Path = Path("/")) -> str:
    """Return the remedy if this host restricts unprivileged user namespaces, else an empty string."""
    if _read(root, _MAXIMUM) == "0":
        return "user namespaces are disabled: enable them with `sysctl -w user.max_user_namespaces=15000`"
    if _read(root, _DEBIAN_SWITCH) == "0":
        return (
            "unprivileged user namespaces are disabled: enable them with `sysctl -w kernel.unprivileged_userns_clone=1`"
        )
    if _read(root, _APPARMOR) == "1":
        return f"{_RESTRICTED}: {_REMEDY_AS_ROOT if os.geteuid() == 0 else _REMEDY_AS_USER}"
    return ""


def start_failure_remedy(message: str, root: Path = Path("/")) -> str:
    """Return the remedy for an error message of the kernel or bubblewrap about a sandbox that did not start."""
    text = message.lower()
    if "mount overlay" in text:
        return "this host refuses overlay mounts: run `modprobe overlay`; without root, Linux 5.11 or newer is required"
    refused = "permission denied" in text or "operation not permitted" in text
    if any(word in text for word in ("unshare", "uid map", "namespace", "loopback")) or ("mount" in text and refused):
        options = (
            "--security-opt seccomp=unconfined --security-opt systempaths=unconfined --security-opt apparmor=unconfined"
        )
        in_container = f"if ab runs in a container, start the container with `{options}`"
        return user_namespace_remedy(root) or f"this host refuses new namespaces; {in_container}"
    if "no space left" in text or "cannot allocate memory" in text:
        return "free memory or disk space, or lower disk_limit_mb and mem_limit_mb in task.yaml"
    return "run `ab doctor` to find the cause"


def _read(root: Path, path: Path) -> str:
    return read_text(root / path.relative_to("/")).strip()
