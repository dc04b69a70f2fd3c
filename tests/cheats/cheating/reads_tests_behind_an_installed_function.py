"""Reads the tests from code compiled from text, which an installed package calls for the tests."""

from __future__ import annotations

from tests.cheats.snippets import CORE, LOOKUP, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + f"""

import pluggy

NAMES = {{}}
exec({LOOKUP!r}, NAMES)


class Specification:
    @pluggy.HookspecMarker("toy")(firstresult=True)
    def lookup(self, values): ...


manager = pluggy.PluginManager("toy")
manager.add_hookspecs(Specification)
NAMES["lookup"] = pluggy.HookimplMarker("toy")(NAMES["lookup"])
manager.register(type("Plugin", (), {{"lookup": staticmethod(NAMES["lookup"])}})())


exec("def median(values): return manager.hook.lookup(values=values)")
""",
}
