"""What an agent is told of a commit: its message without what is no problem, held against leaks and missing names. Pure."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentbench.core.python_syntax import parse as parse_python

_TRAILER = re.compile(
    r"(?i)^(signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|change-id|cherry[- ]picked from|\(cherry picked).*"
)
_REFERENCE = re.compile(
    r"(?i)\s*[(\[]?\b(closes?|closed|fix(?:es|ed)?|resolves?d?|refs?|see|gh)[: ]*(?:[\w./-]*#|gh-)\d+[)\]]?\.?"
)
_NUMBER = re.compile(r"\s*\((?:[\w./-]*#|gh-)\d+\)\s*$")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODE_LENGTH = 14
LISTED = 12


@dataclass(frozen=True, slots=True)
class Flags:
    """What a person must look at before the task is used."""

    leaks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Names that hidden tests demand, that the reference brings, and that neither R nor the statement mention."""
    thin: bool = False

    def lines(self) -> list[str]:
        found = [f"the statement gives away the solution: {leak}" for leak in self.leaks[:LISTED]]
        if self.missing:
            found.append(
                "hidden tests demand names that neither the statement nor the repository mention: "
                + ", ".join(self.missing[:LISTED])
            )
        if self.thin:
            found.append("the statement is very short: does it say what is wrong and what is wanted?")
        return found


def draft(message: str) -> str:
    """A commit message as a statement: without trailers and references to trackers."""
    lines = [line.rstrip() for line in message.replace("\r\n", "\n").splitlines() if not _TRAILER.match(line.strip())]
    lines = [_plain(line) if not line.startswith("    ") else line for line in lines]
    text = "\n".join(lines).strip()
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


def _plain(line: str) -> str:
    """Without references; `Fix #12: the words` begins with its words."""
    bare = _REFERENCE.sub("", line)
    if bare != line and _REFERENCE.match(line):
        bare = re.sub(r"^[:;,-]\s+", "", bare.lstrip())
    return _NUMBER.sub("", bare)


def check(statement: str, patch: bytes, hidden: Mapping[str, bytes], known: Iterable[str]) -> Flags:
    """Hold a statement against what it must not and what it must say. `known`: every word of R's Python files."""
    added = _added_lines(patch)
    squeezed = " ".join(statement.split())
    leaks = ["it contains a diff"] if re.search(r"(?m)^(diff --git |@@ -\d)", statement) else []
    leaks += [f"`{line}`" for line in added if len(line) >= _CODE_LENGTH and _is_code(line) and line in squeezed]
    brought = {word for line in added for word in _WORD.findall(line)}
    told = set(_WORD.findall(statement))
    demanded = {name for source in hidden.values() for name in _names(source)}
    missing = sorted((demanded & brought) - told - set(known))
    thin = len(_WORD.findall(statement)) < 6
    return Flags(tuple(dict.fromkeys(leaks)), tuple(name for name in missing if len(name) > 2), thin)


def _added_lines(patch: bytes) -> list[str]:
    text = patch.decode("utf-8", "replace")
    lines = [line[1:] for line in text.splitlines() if line.startswith("+") and not line.startswith("+++")]
    return [" ".join(line.split()) for line in lines if line.strip()]


def _is_code(line: str) -> bool:
    return bool(re.search(r"[=()\[\]{}:]", line)) and not line.startswith(("#", "..", "-", "*"))


def _names(source: bytes) -> set[str]:
    """Names that a test imports, calls or takes as attributes; what it imports from the standard library is nobody's to bring."""
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError):
        return set()
    nodes = list(ast.walk(tree))
    standard = {alias.asname or alias.name.split(".")[0] for node in nodes for alias in _of_the_standard_library(node)}
    found: set[str] = set()
    defined: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if _root(node) not in standard:
                found.add(node.attr)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            outside = _of_the_standard_library(node)
            found |= {part for alias in node.names if alias not in outside for part in alias.name.split(".")}
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
    return found - defined - standard


def _of_the_standard_library(node: ast.AST) -> list[ast.alias]:
    if isinstance(node, ast.Import):
        return [alias for alias in node.names if alias.name.split(".")[0] in sys.stdlib_module_names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return node.names if node.module.split(".")[0] in sys.stdlib_module_names else []
    return []


def _root(node: ast.expr) -> str | None:
    """The name that a chain of attributes begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def words_of(sources: Iterable[bytes]) -> set[str]:
    """Every identifier of some files."""
    return {word for source in sources for word in _WORD.findall(source.decode("utf-8", "replace"))}


def kind_of(message: str) -> str:
    """The stratum that a commit message points to; a bug fix where it does not say."""
    subject = message.strip().splitlines()[0].lower() if message.strip() else ""
    for kind, pattern in (
        ("hardening", r"\b(cve|security|vulnerab\w*|sanitiz\w*|harden\w*)\b"),
        ("bugfix", r"\b(fix\w*|bug\w*|crash\w*|regression|incorrect\w*|wrong\w*|broken|error\w*|handle)\b"),
        ("refactor", r"\b(refactor\w*|clean ?up|simplif\w*|rename\w*|move\w*)\b"),
        ("migration", r"\b(migrat\w*|port\w* to|drop\w* support|python ?3)\b"),
        ("dependency", r"\b(bump\w*|upgrade\w*|dependenc\w*|pin\w*)\b"),
        ("feature", r"\b(add\w*|feat\w*|support\w*|implement\w*|allow\w*|introduc\w*|new)\b"),
        ("docs", r"\b(docs?|documentation|docstrings?)\b"),
    ):
        if re.search(pattern, subject):
            return kind
    return "bugfix"
