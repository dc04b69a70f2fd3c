"""Why a sandbox does not start on some hosts, and what to do about it."""

from __future__ import annotations

from pathlib import Path

_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_DEBIAN_SWITCH = Path("/proc/sys/kernel/unprivileged_userns_clone")
_MAXIMUM = Path("/proc/sys/user/max_user_namespaces")

INSTALL_BWRAP = "install it: `apt-get install bubblewrap` (Debian, Ubuntu), `dnf install bubblewrap` (Fedora)"


def user_namespaces(root: Path = Path("/")) -> str:
    """The remedy when this host restricts unprivileged user namespaces, else nothing."""
    if _read(root, _MAXIMUM) == "0":
        return "user namespaces are turned off here: `sysctl -w user.max_user_namespaces=15000`"
    if _read(root, _DEBIAN_SWITCH) == "0":
        return "unprivileged user namespaces are turned off here: `sysctl -w kernel.unprivileged_userns_clone=1`"
    if _read(root, _APPARMOR) == "1":
        return (
            "AppArmor restricts unprivileged user namespaces here (Ubuntu 23.10 and newer): allow them for bubblewrap with a "
            "profile in /etc/apparmor.d (`apt-get install apparmor-profiles`, then `apparmor_parser -r "
            "/etc/apparmor.d/bwrap-userns-restrict`), or for everybody: "
            "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"
        )
    return ""


def for_failed_start(said: str, root: Path = Path("/")) -> str:
    """The remedy that fits what the kernel or bubblewrap said when a sandbox did not start."""
    text = said.lower()
    if "mount overlay" in text:
        return (
            "overlay mounts are refused here: load the module (`modprobe overlay`); without root they need Linux 5.11"
        )
    refused = "unshare" in text or "uid map" in text or "namespace" in text or "loopback" in text
    if refused:
        general = "in a container, start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`"
        return user_namespaces(root) or f"this host refuses new namespaces; {general}"
    if "no space left" in text or "cannot allocate memory" in text:
        return "free memory or disk, or lower disk_limit_mb and mem_limit_mb of the task"
    return "`ab doctor` looks for the cause"


def _read(root: Path, path: Path) -> str:
    try:
        return (root / path.relative_to("/")).read_text().strip()
    except OSError:
        return ""
