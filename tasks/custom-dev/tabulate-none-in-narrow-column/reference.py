"""The reference: makes the change in the unpacked release. Runs in the sandbox, in the workspace."""

from pathlib import Path


def replace(path, old, new):
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{path}: expected {old!r} once, found it {text.count(old)} times")
    file.write_text(text.replace(old, new), encoding="utf-8")


replace(
    "tabulate/__init__.py",
    "            if width is not None:\n                wrapper = _CustomTextWrap(width=width)\n",
    "            if width is not None and cell is not None:\n                wrapper = _CustomTextWrap(width=width)\n",
)
