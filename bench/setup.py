"""Whether setup is paid once: attempts on a contract whose setup installs packages, beside the same contract without setup.

    python -m bench.setup [--sandbox bwrap|docker]

Three packages of a hundred modules each are installed by pip from wheels in the repository, without a network. The repository
is new with every run, so the first attempt really installs them; all attempts are of one command, one after the other.
"""

from __future__ import annotations

import io
import secrets
import statistics
import zipfile

from bench.measuring import Report, parser, reporting, usable
from bench.trivial import Ran, scripted, suite

ATTEMPTS = 20
PACKAGES = 3
SETUP = """\
setup:
  commands:
    - "pip install --no-index wheels/*.whl"
    - "python -c 'import bench_package_0, bench_package_1, bench_package_2'"
"""
TOLERANCE_MS = 20
"""What two medians of the same may differ by."""


def wheel(name: str) -> bytes:
    """A package of a hundred modules, as pip takes it."""
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


def durations(ran: Ran) -> list[float]:
    """Milliseconds of the attempts, in the order in which they were made."""
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
    asked = parser(__doc__, sandbox=True).parse_args()
    with reporting("setup", asked.json) as report:
        for backend in usable(asked.sandbox, report):
            measure(backend, report)


if __name__ == "__main__":
    main()
