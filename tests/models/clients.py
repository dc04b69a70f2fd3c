"""The official clients of two model services, imported when a test uses them.

Every worker collects every test module, and these imports take two seconds.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import anthropic
    import openai

__all__ = ["anthropic", "openai"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(name)
    return importlib.import_module(name)
