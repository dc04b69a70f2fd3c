"""Compare command output with text files in which everything that varies is replaced."""

from __future__ import annotations

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "snapshots"
UPDATE = "AB_UPDATE_SNAPSHOTS"

_VARYING: tuple[tuple[str, str], ...] = (
    (r"\b\d{4}-\d\d-\d\dT\d\d[:-]\d\d[:-]\d\d(?:\.\d+)?(?:[+-]\d\d:?\d\d|Z)?", "<time>"),
    # The second of two runs that start in the same second has a number.
    (r"(<time>(?:__[a-z][\w.+-]*?){3})__\d+\b", r"\1"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "<time>"),
    (r"\b0[0-9A-HJKMNP-TV-Z]{25}\b", "<ulid>"),
    (r"\b\d{4}-\d\d-\d\d\b", "<date>"),
    (r"\b[0-9a-f]{64}\b", "<sha256>"),
    (r"SHA256:[A-Za-z0-9+/]{43}", "<key id>"),
    (r"(ssh-ed25519) [A-Za-z0-9+/=]{68}", r"\1 <public key>"),
    (r"\b[0-9a-f]{40}\b", "<commit>"),
    (r"\b[0-9a-f]{32}\b", "<key>"),
    (r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{10,12}\b", "<commit>"),
    (r"\b[0-9]{10}\b", "<commit>"),  # an abbreviated commit that happens to have digits only
    (r"\b(sha256:)?[0-9a-f]{12}…", r"\1<sha256>…"),
    (r"\b0\.1\.0(?:\+g[0-9a-f]+(?:\.dirty)?)?\b", "<version>"),
    (r"\b\d+(?:\.\d+)?(?:e-\d+)? (ms|s|min|h|MB|GB|bytes|abstract)\b", r"<n> \1"),
    (r"(<n> abstract) \((?:setup|agent|review|acceptance|judge|storage)[^)\n]*\)", r"\1 (<phases>)"),
    (r"\b\d[\d.]*(?:e-\d+)? of (\d+ (?:s|bytes))\b", r"<n> of \1"),
    (r" +<n> ", " <n> "),
    (r"\b(\d+) events\b", "<n> events"),
    (r"\bevents? \d+(?:, \d+)*", "events <n>"),
    (r"\befficiency \d\.\d\d", "efficiency <n>"),
    (r"(?m)^(score +)\d\.\d+", r"\1<n>"),
    (r"\bpython \d+\.\d+\.\d+", "python <version>"),
    # How to install depends on the environment.
    (r"(?m)^(?:  \S+ -m ensurepip\n)?  (?:\S+ -m pip install|uv pip install --python \S+) -e ", "  <install> -e "),
    (r"(?m)^  \S*/python3? -m pytest", "  python -m pytest"),
    # How often a harvest prints its status depends on the speed of the machine.
    (r"(?m)^\d+ of \d+ accepted, \d+ of \d+ run · .*\n", ""),
    # Which tests become decoys is random, so the number of findings about a cheat varies.
    (r"reported as passed \(\d+ findings\)", "reported as passed (<n> findings)"),
    # A headline is cut to a width, so how much of the remedy is left depends on the length of the path.
    (r"(?m)(<dir>/nowhere does not exist); .*?(?= \(<n> s\)$|$)", r"\1; <remedy>"),
)


@dataclass(frozen=True, slots=True)
class Output:
    """Result of a command."""

    code: int
    stdout: str
    stderr: str


def normalise(text: str, places: dict[str, str]) -> str:
    """Replace what varies between runs and machines. `places` maps paths to placeholders."""
    for place, name in sorted(places.items(), key=lambda item: -len(item[0])):
        text = text.replace(place, name)
    for pattern, replacement in _VARYING:
        text = re.sub(pattern, replacement, text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def render(command: str, output: Output, places: dict[str, str]) -> str:
    parts = [f"$ {command}", f"exit code: {output.code}"]
    for name, text in (("stdout", output.stdout), ("stderr", output.stderr)):
        if text:
            parts.append(f"----- {name} -----\n{normalise(text, places).rstrip()}")
    return "\n".join(parts) + "\n"


def check_snapshot(name: str, text: str) -> None:
    """Compare with the recorded text; with AB_UPDATE_SNAPSHOTS=1 record it instead."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get(UPDATE) == "1":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    recorded = path.read_text(encoding="utf-8") if path.exists() else ""
    if text != recorded:
        lines = difflib.unified_diff(recorded.splitlines(), text.splitlines(), "recorded", "now", lineterm="")
        pytest.fail(f"{path.name} differs ({UPDATE}=1 records the new output):\n" + "\n".join(lines), pytrace=False)
