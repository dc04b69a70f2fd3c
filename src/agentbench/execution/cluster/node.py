"""A node of the cluster: makes the attempts that the driver sends, in one process with one lab.

The driver's messages come through Ray; everything else goes through the channel. From its start a node lives on a lease, which
every heartbeat that reaches the driver renews, and no sandbox exists before the first one. So whatever a node does when it loses
the driver, its watchdog ends it and its sandboxes.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from agentbench.core.dataclass import dataclass
from agentbench.core.errors import AgentBenchError, HarnessError
from agentbench.execution.attempt.pipeline import make_attempt
from agentbench.execution.cluster.channel_client import ChannelClient, ChannelLost, Dismissed
from agentbench.execution.cluster.channel_keys import ChannelKey, new_channel_key
from agentbench.execution.cluster.content import Address
from agentbench.execution.cluster.evidence_transfer import EvidenceSender
from agentbench.execution.cluster.materials import unpack_requirements
from agentbench.execution.cluster.node_lab import LabSettings, NodeLab
from agentbench.execution.cluster.node_materials import NodeMaterials
from agentbench.execution.cluster.node_models import AttemptClient, DriverOriginals, NodeModels, open_operator
from agentbench.execution.cluster.probe import probe_node
from agentbench.execution.cluster.wire import JsonDict
from agentbench.execution.lab import declared_secrets
from agentbench.execution.plan import PlanRow
from agentbench.models.keys import Keys, preset_key_names
from agentbench.models.metered_model import ModelIdentity
from agentbench.record.attempt_folder import AttemptFolder
from agentbench.sandbox.memory_folder import MemoryFolder
from agentbench.sandbox.state import default_state
from agentbench.sandbox.watchdog import Watchdog
from agentbench.trace.originals import Discarded, EvidenceText, OriginalsWriter
from agentbench.trace.redaction import Redactor

HEARTBEAT_SEC = 0.5
_HEARTBEAT_TIMEOUT_SEC = 10.0
_CONNECT_SEC = 120.0
"""The first lease: how long the driver may take until it lets the node connect."""


@dataclass(frozen=True, slots=True)
class SentAttempt:
    """One attempt to make: its identity, and the address of its materials."""

    attempt_id: str
    task_id: str
    task_dir: str
    repeat: int
    attempt: int
    supersedes: str | None
    run_id: str
    study_id: str
    text: EvidenceText
    withholds: bool
    keeps_originals: bool
    base_seed: int
    seed: int
    materials: Address
    identities: Mapping[str, ModelIdentity]


@dataclass(slots=True)
class _Running:
    sender: EvidenceSender
    client: AttemptClient
    phase: str = "starting"
    lock: threading.Lock = field(default_factory=threading.Lock)


class Node:
    """The actor of one node, created by the driver."""

    def __init__(self, name: str) -> None:
        self._state = default_state()
        self._memory = MemoryFolder()
        self._watchdog = Watchdog(self._memory.path, self._state, time.monotonic() + _CONNECT_SEC)
        self._key: ChannelKey = new_channel_key(name)
        self._closed = threading.Event()
        self._running: dict[str, _Running] = {}
        self._lock = threading.Lock()
        self._opened = threading.Event()

    # --- messages of the driver -------------------------------------------------------------------------------------------

    def introduce(self) -> str:
        """Return the node's certificate."""
        return self._key.certificate

    def connect(self, url: str, driver_certificate: str, lost_sec: float) -> str:
        """Begin to send heartbeats. The node ends when none reaches the driver for `lost_sec`.

        Return why the driver cannot be reached from here; empty text if it can.
        """
        self._lost_sec = lost_sec
        self._channel = ChannelClient(url, self._key, driver_certificate)
        try:
            self._send_heartbeat()
        except HarnessError as error:
            return f"it cannot reach {url}: {error.message}"
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        return ""

    def probe(self) -> str:
        """Return what the node has, as text: the driver may have another version."""
        self._report = probe_node(self._state)
        return self._report.as_json()

    def open(self, settings: LabSettings) -> None:
        """Get ready for attempts."""
        self._models = NodeModels(settings, self._channel)
        self._lab = NodeLab(settings, self._models, self._state)
        self._lab.open_operator = open_operator(self._channel)
        self._materials = NodeMaterials(self._channel.fetch, self._memory.path, self._lab)
        self._opened.set()
        # Apart from heartbeats: a large file must not make the node look lost.
        threading.Thread(target=self._send_new_evidence, name="evidence", daemon=True).start()

    def require(self, tasks: Mapping[str, Address]) -> dict[str, str]:
        """Return, for each task, why it cannot run here; empty text if it can."""
        return {key: self._problem(address) for key, address in tasks.items()}

    def start(self, sent: SentAttempt) -> None:
        """Begin an attempt. Its end is reported through the channel."""
        threading.Thread(target=self._make, args=(sent,), name=f"attempt-{sent.attempt_id}", daemon=True).start()

    def watch(self) -> None:
        """Return when the node ends, so that the driver learns of it."""
        self._closed.wait()

    def close(self) -> None:
        """End all sandboxes. The driver ends the process."""
        self._lab.cancel()
        self._memory.close()
        self._closed.set()

    # --- attempts ---------------------------------------------------------------------------------------------------------

    def _problem(self, address: Address) -> str:
        try:
            task = unpack_requirements(address, self._channel.fetch, self._memory.path)
            self._lab.require(task)
            declared_secrets(task)
            broken = self._report.backends[self._lab.backend(task).name]
        except AgentBenchError as error:
            return error.message + (f" ({error.remedy})" if error.remedy else "")
        return broken

    def _make(self, sent: SentAttempt) -> None:
        client = AttemptClient(self._channel, sent.attempt_id)
        folder = self._folder(sent, client)
        running = _Running(EvidenceSender(folder.path), client)
        failure = ""
        try:
            folder.make()
            with self._lock:
                self._running[sent.attempt_id] = running
            failure = self._run(sent, folder, running)
        except AgentBenchError as error:
            failure = error.message
        except Exception as error:  # noqa: BLE001 - the driver must learn how it ended
            failure = f"{type(error).__name__}: {error}"
        finally:
            self._report_end(sent, running, failure)
            shutil.rmtree(folder.run, ignore_errors=True)

    def _run(self, sent: SentAttempt, folder: AttemptFolder, running: _Running) -> str:
        with self._materials.use(sent.materials) as (task, configuration):
            row = PlanRow(task, configuration, sent.repeat, sent.seed)
            declared = [*task.task.artifacts.redact, *task.task.environment.secrets]
            values = Keys(os.environ).values([*preset_key_names(), *declared])
            folder = replace(folder, redact=Redactor(values))
            self._models.open_attempt(row, running.client, sent.identities)

            def report_phase(phase: str) -> None:
                running.phase = phase

            try:
                _, failure = make_attempt(row, self._lab, folder, base_seed=sent.base_seed, report_phase=report_phase)
            finally:
                self._models.close_attempt(row)
        return "" if failure is None else failure.message

    def _folder(self, sent: SentAttempt, client: AttemptClient) -> AttemptFolder:
        originals: OriginalsWriter | None = None
        if sent.keeps_originals:
            originals = DriverOriginals(client, sent.withholds)
        elif sent.withholds:
            originals = Discarded()
        return AttemptFolder(
            run=self._memory.path / "runs" / sent.attempt_id,
            task_dir=sent.task_dir,
            attempt_id=sent.attempt_id,
            task_id=sent.task_id,
            repeat=sent.repeat,
            attempt=sent.attempt,
            supersedes=sent.supersedes,
            run_id=sent.run_id,
            study_id=sent.study_id,
            text=sent.text,
            originals=originals,
        )

    def _report_end(self, sent: SentAttempt, running: _Running, failure: str) -> None:
        """Send the rest of the evidence with the end of the attempt. Tries until the driver is given up for lost."""
        unsent = self._try_to_send(lambda: self._send_evidence(running, failure), running)
        if unsent:
            self._try_to_send(lambda: running.client.post("finished", {"failure": unsent}), running)
        with self._lock:
            self._running.pop(sent.attempt_id, None)

    def _try_to_send(self, send: Callable[[], object], running: _Running) -> str:
        """Send something, again while the driver cannot be reached. Return why that failed."""
        deadline = time.monotonic() + self._lost_sec
        while True:
            try:
                send()
            except (HarnessError, OSError) as error:
                running.sender.forget()
                lost = isinstance(error, ChannelLost) and not isinstance(error, Dismissed)
                if not lost or time.monotonic() > deadline:
                    return f"its evidence could not be sent: {error}"
                time.sleep(HEARTBEAT_SEC)
            else:
                return ""

    def _send_evidence(self, running: _Running, failure: str | None = None) -> None:
        """Send what is new; with `failure`, everything, and that the attempt ended."""
        with running.lock:
            chunks, size = running.sender.transfer(failure)
            if size:
                path = running.client.path("evidence")
                running.client.channel.post_bytes(path, chunks, size=size, timeout=self._lost_sec)

    # --- life -------------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Send heartbeats while the node lives. If none reaches the driver, the watchdog ends this process."""
        while not self._closed.wait(HEARTBEAT_SEC):
            try:
                answer = self._send_heartbeat()
            except Dismissed:
                os._exit(0)  # its sandboxes end with it, and the watchdog removes the rest
            except HarnessError:
                continue
            if answer.get("cancel") and self._opened.is_set() and not self._lab.cancelled.is_set():
                self._lab.cancel()

    def _send_heartbeat(self) -> JsonDict:
        sent = time.monotonic()
        phases = {name: attempt.phase for name, attempt in self._attempts().items()}
        answer = self._channel.post("/heartbeat", {"phases": phases}, timeout=_HEARTBEAT_TIMEOUT_SEC)
        self._watchdog.renew(sent + self._lost_sec)
        return answer

    def _send_new_evidence(self) -> None:
        """Send what is new, so that the driver has it if the node dies."""
        while not self._closed.wait(HEARTBEAT_SEC):
            for running in self._attempts().values():
                try:
                    self._send_evidence(running)
                except (HarnessError, OSError):
                    running.sender.forget()

    def _attempts(self) -> dict[str, _Running]:
        with self._lock:
            return dict(self._running)
