from __future__ import annotations

from tests.tools.conftest import boxes, folder_sandbox, place, state, workspace

__all__ = ["boxes", "folder_sandbox", "place", "state", "workspace"]
