from __future__ import annotations

from tests.oracle.conftest import bed

__all__ = ["bed"]
