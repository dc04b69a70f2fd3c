"""The host's package index and proxy settings, as a setup phase gets them.

They are merged into one pip.conf; folders and certificates they name are bound read-only at their own paths; proxies and
certificate variables become environment. Nothing else of the host's environment goes in. Credentials inside index or proxy
addresses reach the setup phase only, and are taken out of whatever is recorded of it.
"""

from __future__ import annotations

from agentbench.core.package_settings import PackageSettings, host_settings, without_credentials
from agentbench.sandbox.layout import DOWNLOADS

__all__ = ["PackageSettings", "host_settings", "setup_environment", "without_credentials"]


def setup_environment(settings: PackageSettings) -> dict[str, str]:
    return {**settings.env, "PIP_CACHE_DIR": DOWNLOADS, "PIP_NO_INPUT": "1", "UV_CACHE_DIR": f"{DOWNLOADS}/uv"}
