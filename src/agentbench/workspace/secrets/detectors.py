"""The detectors of the library detect-secrets, without its scanner, whose settings are global to the process.

Nothing is verified over a network. The library takes 0.2 s to import, so it is imported at the first use.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from detect_secrets.plugins.base import BasePlugin

_EXCLUDED_DETECTORS = {"KeywordDetector", "IPPublicDetector", "Base64HighEntropyString", "HexHighEntropyString"}
"""Keywords are searched separately. IP addresses are not secrets, and honest digests have as much entropy as keys."""


@cache
def form_detectors() -> tuple[BasePlugin, ...]:
    """Return one instance of each detector that recognises a secret by its form alone."""
    from detect_secrets import plugins  # noqa: PLC0415
    from detect_secrets.plugins.base import BasePlugin  # noqa: PLC0415

    modules = [
        importlib.import_module(f"{plugins.__name__}.{module.name}")
        for module in pkgutil.iter_modules(plugins.__path__)
    ]
    detectors = {
        name: detector
        for module in modules
        for name, detector in vars(module).items()
        if isinstance(detector, type) and issubclass(detector, BasePlugin) and not inspect.isabstract(detector)
    }
    return tuple(detectors[name]() for name in sorted(detectors) if name not in _EXCLUDED_DETECTORS)


def is_placeholder(secret: str) -> bool:
    """Return whether the library's own filters exclude a value: templates, sequences, UUIDs."""
    from detect_secrets.filters import heuristic  # noqa: PLC0415

    return (
        heuristic.is_templated_secret(secret)
        or heuristic.is_prefixed_with_dollar_sign(secret)
        or heuristic.is_not_alphanumeric_string(secret)
        or heuristic.is_sequential_string(secret)
        or heuristic.is_potential_uuid(secret)
    )
