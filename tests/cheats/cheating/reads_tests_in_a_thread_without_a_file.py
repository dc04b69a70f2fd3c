"""Reads the tests in a thread that runs only code of the interpreter and code compiled from text."""

from __future__ import annotations

from tests.cheats.snippets import CORE, LOOKUP, MEAN

FAMILY = "leaks"
CHANGES: dict[str, str | None] = {
    CORE: MEAN
    + f"""

from concurrent.futures import ThreadPoolExecutor

NAMES = {{}}
exec(compile({LOOKUP!r}, "<frozen posixpath>", "exec"), NAMES)


def median(values):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(NAMES["lookup"], values).result()
""",
}
