"""Draft a task statement from a commit message and check it for leaks and missing names. Pure."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping

from agentbench.core.dataclass import dataclass
from agentbench.core.python_syntax import parse_or_none

_TRAILER = re.compile(
    r"(?i)^(signed-off-by|co-authored-by|reviewed-by|acked-by|tested-by|change-id|cherry[- ]picked from|\(cherry picked).*"
)
_REFERENCE = re.compile(
    r"(?i)\s*[(\[]?\b(closes?|closed|fix(?:es|ed)?|resolves?d?|refs?|see|gh)[: ]*(?:[\w./-]*#|gh-)\d+[)\]]?\.?"
)
_NUMBER = re.compile(r"\s*\((?:[\w./-]*#|gh-)\d+\)\s*$")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEPARATOR = re.compile(r"\s*^-{3,}\Z", re.MULTILINE)
"""The line that GitHub puts between a squashed message and its trailers."""
_CODE_LENGTH = 14
_SUBJECT_WORDS = 20
"""A line with more words is a paragraph."""
LISTED = 12


@dataclass(frozen=True, slots=True)
class Flags:
    """Findings that a person must review before the task is used."""

    leaks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Names that hidden tests use and the reference adds, but neither base repository nor statement mentions."""
    subject_only: bool = False

    def lines(self) -> list[str]:
        lines = [f"the statement gives away the solution: {leak}" for leak in self.leaks[:LISTED]]
        if self.missing:
            lines.append(
                "hidden tests use names that neither the statement nor the repository mentions: "
                + ", ".join(self.missing[:LISTED])
            )
        if self.subject_only:
            lines.append(
                "the statement is only a subject line, or subject lines of squashed commits; "
                "describe the problem and the expected behaviour"
            )
        return lines


def draft_statement(message: str) -> str:
    """Turn a commit message into a statement, without trailers, the line above them, and issue references."""
    lines = [line.rstrip() for line in message.replace("\r\n", "\n").splitlines() if not _TRAILER.match(line.strip())]
    lines = [_plain(line) if not line.startswith("    ") else line for line in lines]
    text = _SEPARATOR.sub("", "\n".join(lines).strip())
    return re.sub(r"\n{3,}", "\n\n", text) + "\n"


def _plain(line: str) -> str:
    """Remove references, so that `Fix #12: crash on start` becomes `crash on start`."""
    bare = _REFERENCE.sub("", line)
    if bare != line and _REFERENCE.match(line):
        bare = re.sub(r"^[:;,-]\s+", "", bare.lstrip())
    return _NUMBER.sub("", bare)


def check_statement(statement: str, patch: bytes, hidden: Mapping[str, bytes], known_words: Iterable[str]) -> Flags:
    """Find leaks and gaps in a statement. `known_words` are all identifiers in the base repository's Python files."""
    added_lines = _added_lines(patch)
    squeezed = " ".join(statement.split())
    leaks = ["it contains a diff"] if re.search(r"(?m)^(diff --git |@@ -\d)", statement) else []
    leaks += [f"`{line}`" for line in added_lines if len(line) >= _CODE_LENGTH and _is_code(line) and line in squeezed]
    added = {word for line in added_lines for word in _WORD.findall(line)}
    stated = set(_WORD.findall(statement))
    used = {name for source in hidden.values() for name in _names(source)}
    missing = sorted((used & added) - stated - set(known_words))
    names = tuple(name for name in missing if len(name) > 2)
    return Flags(tuple(dict.fromkeys(leaks)), names, _is_subject_only(statement))


def _is_subject_only(statement: str) -> bool:
    paragraphs = [text.strip() for text in re.split(r"\n\s*\n", statement) if text.strip()]
    return not any(map(_is_description, paragraphs[:1])) and all(map(_is_squashed_subject, paragraphs[1:]))


def _is_squashed_subject(paragraph: str) -> bool:
    """Return whether a paragraph is the subject of a commit, as GitHub lists them in the message of a squash merge."""
    return paragraph.startswith("* ") and not _is_description(paragraph)


def _is_description(paragraph: str) -> bool:
    return "\n" in paragraph or len(_WORD.findall(paragraph)) >= _SUBJECT_WORDS


def _added_lines(patch: bytes) -> list[str]:
    text = patch.decode("utf-8", "replace")
    lines = [line[1:] for line in text.splitlines() if line.startswith("+") and not line.startswith("+++")]
    return [" ".join(line.split()) for line in lines if line.strip()]


def _is_code(line: str) -> bool:
    return bool(re.search(r"[=()\[\]{}:]", line)) and not line.startswith(("#", "..", "-", "*"))


def _names(source: bytes) -> set[str]:
    """Return the names that a test imports, passes as keywords or reads as attributes, except standard library ones."""
    tree = parse_or_none(source)
    nodes = list(ast.walk(tree)) if tree is not None else []
    standard = {alias.asname or alias.name.split(".")[0] for node in nodes for alias in _standard_imports(node)}
    used: set[str] = set()
    defined: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            if _root(node) not in standard:
                used.add(node.attr)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            standard_aliases = _standard_imports(node)
            used |= {part for alias in node.names if alias not in standard_aliases for part in alias.name.split(".")}
        elif isinstance(node, ast.keyword) and node.arg:
            used.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
    return used - defined - standard


def _standard_imports(node: ast.AST) -> list[ast.alias]:
    if isinstance(node, ast.Import):
        return [alias for alias in node.names if alias.name.split(".")[0] in sys.stdlib_module_names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return node.names if node.module.split(".")[0] in sys.stdlib_module_names else []
    return []


def _root(node: ast.expr) -> str | None:
    """Return the name at the start of an attribute chain."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def words_of(sources: Iterable[str]) -> set[str]:
    """Return every identifier in some files."""
    return {word for source in sources for word in _WORD.findall(source)}


def kind_of(message: str) -> str:
    """Guess the kind of change from a commit message; `bugfix` if nothing points elsewhere."""
    subject = message.strip().splitlines()[0].lower() if message.strip() else ""
    for kind, pattern in (
        # The prefix of a conventional commit, such as `docs(api): fix a typo`, says what the change is.
        ("bugfix", r"^(bug)?fix\b[^:]*:"),
        ("refactor", r"^(refactor|perf(ormance)?|style)\b[^:]*:"),
        ("docs", r"^docs?\b[^:]*:"),
        ("feature", r"^feat(ure)?\b[^:]*:"),
        ("hardening", r"\b(cve|security|vulnerab\w*|sanitiz\w*|harden\w*)\b"),
        ("bugfix", r"\b(fix\w*|bug\w*|crash\w*|regression|incorrect\w*|wrong\w*|broken|error\w*|handle)\b"),
        # These verbs say what the change does only at the start: "when fields are renamed" describes a problem.
        (
            "refactor",
            r"\b(refactor\w*|restructur\w*|clean ?up)\b|^([\w./ -]+: )?(simplif\w*|renam\w*|mov(e|es|ed|ing))\b",
        ),
        ("migration", r"\b(migrat\w*|port\w* to|drop\w* support|python ?3)\b"),
        ("dependency", r"\b(bump\w*|upgrade\w*|dependenc\w*|pin\w*)\b"),
        ("feature", r"\b(add\w*|feat\w*|support\w*|implement\w*|allow\w*|introduc\w*|new)\b"),
        ("docs", r"\b(docs?|documentation|docstrings?)\b"),
    ):
        if re.search(pattern, subject):
            return kind
    return "bugfix"
