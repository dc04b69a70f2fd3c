from __future__ import annotations

from tests.tools.conftest import folder_sandbox, place, workspace

__all__ = ["folder_sandbox", "place", "workspace"]
