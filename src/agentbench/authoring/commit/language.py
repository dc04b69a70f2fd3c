"""Refuse repositories whose language is not supported, before anything is run. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath

from agentbench.authoring.commit.split import UnsuitableCommit

_LANGUAGES = {
    ".py": "Python", ".c": "C", ".cc": "C++", ".cpp": "C++", ".cs": "C#", ".dart": "Dart", ".ex": "Elixir", ".go": "Go",
    ".hs": "Haskell", ".java": "Java", ".jl": "Julia", ".js": "JavaScript", ".jsx": "JavaScript", ".kt": "Kotlin",
    ".lua": "Lua", ".mjs": "JavaScript", ".php": "PHP", ".pl": "Perl", ".r": "R", ".rb": "Ruby", ".rs": "Rust",
    ".scala": "Scala", ".swift": "Swift", ".ts": "TypeScript", ".tsx": "TypeScript", ".zig": "Zig",
}  # fmt: skip
_PACKAGING = frozenset({"pyproject.toml", "setup.py", "setup.cfg"})


def require_python(paths: Iterable[str], repository: str) -> None:
    """Check that a repository is a Python project, or has more Python than anything else.

    Raises:
        UnsuitableCommit: it is not.
    """
    files = [PurePosixPath(path) for path in paths]
    languages = Counter(_LANGUAGES[file.suffix.lower()] for file in files if file.suffix.lower() in _LANGUAGES)
    if not languages:
        return
    language, count = languages.most_common(1)[0]
    if languages["Python"] and (languages["Python"] == count or any(file.name in _PACKAGING for file in files)):
        return
    raise UnsuitableCommit(
        "language",
        f"{repository} is written in {language} ({count} of {languages.total()} source files): tasks can be created only "
        "from Python repositories that are tested with pytest",
        remedy="write the task by hand with a check for its test command: ab task new",
    )
