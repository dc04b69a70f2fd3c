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
    "    if maxcolwidths is not None:\n        num_cols = len(list_of_lists[0])\n",
    "    if maxcolwidths is not None and list_of_lists:\n        num_cols = len(list_of_lists[0])\n",
)
replace(
    "tabulate/__init__.py",
    "    if maxheadercolwidths is not None:\n        num_cols = len(list_of_lists[0])\n",
    "    if maxheadercolwidths is not None:\n        num_cols = len(list_of_lists[0]) if list_of_lists else len(headers)\n",
)
