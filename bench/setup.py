"""Check that setup is paid for once: compare attempts on a task whose setup installs packages with the same task without.

    python -m bench.setup [--sandbox bwrap|docker]

pip installs three packages of a hundred modules each from wheels in the repository, without a network. The repository is new
in every run, so the first attempt does install them; one command runs all attempts in sequence.
"""

from __future__ import annotations

import io
import secrets
import statistics
import zipfile

from bench.report import Report, argument_parser, available_backends, open_report
from bench.trivial import AbRun, scripted, suite

ATTEMPTS = 20
PACKAGES = 3
SETUP = """\
setup:
  commands:
    - "pip install --no-index wheels/*.whl"
    - "python -c 'import bench_package_0, bench_package_1, bench_package_2'"
"""
TOLERANCE_MS = 20
"""Allowed difference between two medians of the same measurement."""


def wheel(name: str) -> bytes:
    """Build a wheel with a hundred modules."""
    stream = io.BytesIO()
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/__init__.py", "")
        for number in range(100):
            archive.writestr(f"{name}/module_{number}.py", f"VALUE = {number}\n" * 100)
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return stream.getvalue()


def durations(ran: AbRun) -> list[float]:
    """Return the milliseconds of the attempts in order."""
    records = sorted(ran.records(), key=lambda record: str(record["attempt_id"]))
    return [float(str(record["duration_sec"])) * 1000 for record in records]


def measure(backend: str, report: Report) -> None:
    wheels = {
        f"wheels/bench_package_{number}-1.0-py3-none-any.whl": wheel(f"bench_package_{number}")
        for number in range(PACKAGES)
    }
    files = {**wheels, "stamp": secrets.token_bytes(16)}
    with suite(name="plain", files=files) as folder:
        plain = durations(scripted(folder, backend, ATTEMPTS, 1))
    with suite(name="installs", more=SETUP, files=files) as folder:
        with_setup = durations(scripted(folder, backend, ATTEMPTS, 1))
    report.value("first attempt, packages installed on the way", with_setup[0] / 1000, "s", backend=backend)
    report.times(f"attempts 2 to {ATTEMPTS}, setup installs packages", with_setup[1:], backend=backend)
    report.times(f"attempts 2 to {ATTEMPTS}, no setup", plain[1:], backend=backend)
    added = statistics.median(with_setup[1:]) - statistics.median(plain[1:])
    report.value("added by setup to an attempt (medians)", added, "ms", backend=backend, most=TOLERANCE_MS)
    report.value(f"attempt {ATTEMPTS}", with_setup[-1], "ms", backend=backend)


def main() -> None:
    arguments = argument_parser(__doc__, sandbox=True).parse_args()
    with open_report("setup", arguments.json) as report:
        for backend in available_backends(arguments.sandbox, report):
            measure(backend, report)


if __name__ == "__main__":
    main()
