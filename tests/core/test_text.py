"""Text for display: terminal codes are removed, other control characters are escaped."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentbench.core.text import printable, shell_quoted, without_terminal_codes


@pytest.mark.parametrize(
    "text, shown",
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[38;5;196mred\x1b[K", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bMup", "up"),
        ("[31m is text", "[31m is text"),
        ("cut \x1b[31", "cut \x1b[31"),
    ],
)
def test_terminal_codes_are_removed(text: str, shown: str) -> None:
    assert without_terminal_codes(text) == shown


def test_other_control_characters_are_escaped() -> None:
    assert printable("a\x07b\u202ec") == "a\\x07b\\u202ec"


def test_paths_in_commands_can_be_pasted() -> None:
    assert shell_quoted(Path("runs/it's 1")) == "'runs/it'\"'\"'s 1'"
    assert shell_quoted("runs/a_1+0000") == "runs/a_1+0000"
