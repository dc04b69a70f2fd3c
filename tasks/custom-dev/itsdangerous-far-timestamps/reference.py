"""The reference: makes the change in the unpacked release. Runs in the sandbox, in the workspace."""

from pathlib import Path


def replace(path, old, new):
    file = Path(path)
    text = file.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{path}: expected {old!r} once, found it {text.count(old)} times")
    file.write_text(text.replace(old, new), encoding="utf-8")


source = Path("src/itsdangerous/timed.py").read_text(encoding="utf-8")
start = source.index("        # Signature was okay but the timestamp is actually not there or")
replace(
    "src/itsdangerous/timed.py",
    "            if ts_int is not None:\n                ts_dt = self.timestamp_to_datetime(ts_int)\n",
    """            if ts_int is not None:
                try:
                    ts_dt = self.timestamp_to_datetime(ts_int)
                except (ValueError, OSError, OverflowError):
                    pass  # Nobody can say when it was signed.
""",
)
replace(
    "src/itsdangerous/timed.py",
    source[start : source.index("\n", start) + 1],
    """        if ts_int is not None:
            try:
                self.timestamp_to_datetime(ts_int)
            except (ValueError, OSError, OverflowError) as exc:
                raise BadTimeSignature("Malformed timestamp", payload=value) from exc

"""
    + source[start : source.index("\n", start) + 1],
)
