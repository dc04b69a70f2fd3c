"""The formats of runs: which exist, and what an exporter of runs or an importer of results offers.

A format is named before its module is imported, so that listing formats is fast and a missing optional package only matters to
those who use the format.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from agentbench.contract.problem import did_you_mean
from agentbench.core.dataclass import dataclass
from agentbench.core.errors import InputError
from agentbench.core.text import shell_quoted
from agentbench.exchange.imported_result import ImportedLog
from agentbench.exchange.source_run import SourceRun
from agentbench.record.bundle import is_bundle
from agentbench.record.naming import RUN_JSON


@dataclass(frozen=True, slots=True)
class Written:
    """The output of an exporter."""

    attempts: int
    bytes: int
    files: int = 1
    notes: tuple[str, ...] = ()
    """What the reader of the export should know, such as attempts that the format cannot express."""


class RunExporter(Protocol):
    """Writes a run in the format of another tool."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def write(self, run: SourceRun, out: str) -> Written:
        """Write the run to `out`: a file, a folder, or an address if the format has one.

        Raises:
            InputError: `out` cannot be used, or an optional package is missing.
        """
        ...


class ResultImporter(Protocol):
    """Reads results of another tool."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def detects(self, path: Path) -> bool:
        """Return whether a file or folder looks like this format. Reads as little as possible and raises nothing."""
        ...

    def read(self, path: Path) -> ImportedLog:
        """Read a file or folder.

        Raises:
            InputError: it is not what it should be; the message names the place.
        """
        ...


@dataclass(frozen=True, slots=True)
class LazyRunExporter:
    """An exporter whose module is imported when it writes."""

    name: str
    description: str
    module: str

    def write(self, run: SourceRun, out: str) -> Written:
        written: Written = importlib.import_module(self.module).write(run, out)
        return written


@dataclass(frozen=True, slots=True)
class LazyResultImporter:
    """An importer whose module is imported when it looks at a file."""

    name: str
    description: str
    module: str

    def detects(self, path: Path) -> bool:
        return bool(importlib.import_module(self.module).detects(path))

    def read(self, path: Path) -> ImportedLog:
        log: ImportedLog = importlib.import_module(self.module).read(path)
        return log


_EXPORTERS = (
    LazyRunExporter("inspect", "Inspect AI log (.eval or .json)", "agentbench.exchange.inspect_export"),
    LazyRunExporter("atif", "Harbor trajectories (folder, one file per attempt)", "agentbench.exchange.atif_export"),
    LazyRunExporter(
        "otel", "OpenTelemetry traces (OTLP JSON lines, or an OTLP/HTTP address)", "agentbench.exchange.otel"
    ),
    LazyRunExporter("parquet", "table of attempts", "agentbench.exchange.parquet"),
    LazyRunExporter("junit", "JUnit XML, one test case per attempt", "agentbench.exchange.junit"),
    LazyRunExporter("swebench", "SWE-bench predictions (.jsonl) or report (.json)", "agentbench.exchange.swebench"),
)
_IMPORTERS = (
    LazyResultImporter("inspect", "Inspect AI log (.eval or .json)", "agentbench.exchange.inspect_import"),
    LazyResultImporter("atif", "Harbor trajectories (file or folder)", "agentbench.exchange.atif_import"),
)


def exporters() -> Mapping[str, RunExporter]:
    """Return the exporters by name."""
    return {exporter.name: exporter for exporter in _EXPORTERS}


def importers() -> Mapping[str, ResultImporter]:
    """Return the importers by name."""
    return {importer.name: importer for importer in _IMPORTERS}


def find_exporter(name: str, others: Iterable[str] = ()) -> RunExporter:
    """Return the exporter with this name. `others` are names that the caller handles, for the message.

    Raises:
        InputError: no such format.
    """
    known = exporters()
    if name not in known:
        names = [*known, *others]
        msg = f"unknown format '{name}'{did_you_mean(name, names)}"
        raise InputError(msg, remedy=f"available formats: {', '.join(names)}")
    return known[name]


def find_importer(path: Path, name: str | None = None) -> ResultImporter:
    """Return the importer with this name, or the one that recognises the path.

    Raises:
        InputError: the path does not exist, the name is unknown, or no importer recognises it.
    """
    known = importers()
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if name is not None:
        if name not in known:
            msg = f"unknown format '{name}'{did_you_mean(name, list(known))}"
            raise InputError(msg, remedy=f"available formats: {', '.join(known)}")
        return known[name]
    for importer in known.values():
        if importer.detects(path):
            return importer
    listed = "; ".join(f"{importer.name}: {importer.description}" for importer in known.values())
    if path.is_file() and is_bundle(path):
        raise InputError(
            f"{path} is a bundle of a run, which needs no import", remedy=f"read it with `ab show {shell_quoted(path)}`"
        )
    if (path / RUN_JSON).is_file():
        raise InputError(f"{path} is a run directory already", remedy=f"read it with `ab show {shell_quoted(path)}`")
    raise InputError(f"{path}: unknown format", remedy=f"choose one with --format ({listed})")
