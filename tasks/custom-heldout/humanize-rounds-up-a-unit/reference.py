"""The reference: makes the change in the unpacked release. Runs in the sandbox, in the workspace."""

from pathlib import Path


def replace(path, old, new):
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{path}: expected {old!r} once, found it {text.count(old)} times")
    file.write_text(text.replace(old, new), encoding="utf-8")


replace(
    "src/humanize/filesize.py",
    "        if abs_bytes < unit:\n            break\n",
    "        if abs(float(format % (base * bytes_ / unit))) < base:\n            break\n",
)
