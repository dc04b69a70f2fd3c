"""Write the package of a new plug-in from the files in `templates/`, which are data."""

from __future__ import annotations

from pathlib import Path

from agentbench.core.errors import InputError
from agentbench.plugins.kinds import Kind

TEMPLATES = Path(__file__).with_name("templates")
_NAME, _PACKAGE, _KIND, _GROUP = "plugin_name", "plugin_package", "plugin_kind", "plugin_group"


def write_package(kind: Kind, name: str, folder: Path) -> list[str]:
    """Write a package with one plug-in, and return the paths of its files below the folder.

    Raises:
        InputError: the name is not an identifier, or the folder is not empty.
    """
    if not name.isidentifier() or not name.isascii():
        msg = f"'{name}' cannot be the name of a plug-in: it is also the name of its function"
        raise InputError(msg, remedy="use letters, digits and underscores, such as my_plugin")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not an empty folder", remedy="choose another folder with --out")
    package = f"agentbench_{name}"
    sources = {
        "pyproject.toml": "pyproject.toml.txt",
        f"src/{package}/__init__.py": f"{kind}.py.txt",
        f"tests/test_{name}.py": f"test_{kind}.py.txt",
    }
    words = {_NAME: name, _PACKAGE: package, _KIND: kind.words, _GROUP: kind.group}
    for target, source in sources.items():
        text = (TEMPLATES / source).read_text(encoding="utf-8")
        for word, value in words.items():
            text = text.replace(word, value)
        try:
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            (folder / target).write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write {folder / target}: {error.strerror}") from None
    return list(sources)
