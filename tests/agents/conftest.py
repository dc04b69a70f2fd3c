from __future__ import annotations

from tests.tools.conftest import folder_sandbox, open_session, sandboxes, state, workspace

__all__ = ["folder_sandbox", "open_session", "sandboxes", "state", "workspace"]
