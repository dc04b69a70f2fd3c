"""The executor `ray`: makes attempts on the nodes of a Ray cluster, with the guarantees of one process.

A worker thread of the driver waits for a place on a node, registers the attempt, sends it, receives its evidence and takes its
record into the run. A harness error on a node is recorded, and the attempt is made again on another node, a limited number of
times. The new record supersedes the old one, so an attempt has one final record.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from agentbench.acceptance.checks.run_check import HARNESS_ERROR
from agentbench.contract.load import LoadedTask
from agentbench.core.canonical import digest
from agentbench.core.errors import (
    AgentBenchError,
    HarnessError,
    InputError,
    Interrupted,
    RecordError,
    SandboxUnavailable,
)
from agentbench.core.problems import Problems
from agentbench.core.reasons import Attribution, InvalidCause, Outcome, RunStatus, TerminationCode
from agentbench.execution.attempt.judge import judge_recording
from agentbench.execution.cluster.attempt_service import AGENT, JUDGE, AttemptService
from agentbench.execution.cluster.cluster_nodes import LOST_SEC, ClusterNode, ClusterNodes, NodeTerms
from agentbench.execution.cluster.content import ContentStore
from agentbench.execution.cluster.materials import pack_materials, pack_requirements
from agentbench.execution.cluster.node import SentAttempt
from agentbench.execution.cluster.node_lab import LabSettings
from agentbench.execution.cluster.pool import ClusterGone, Demand, Lease, PoolNode
from agentbench.execution.cluster.ray_cluster import RayCluster, require_ray
from agentbench.execution.cluster.received_attempt import adopt
from agentbench.execution.executor import LocalThreads
from agentbench.execution.job import AttemptJob, Observer
from agentbench.execution.lab import Lab
from agentbench.execution.plan import PlanRow
from agentbench.models.metered_model import ModelIdentity
from agentbench.record.schema import AttemptRecord
from agentbench.trace.originals import Discarded

MAX_TRIES = 3
"""How often an attempt is made that ends in harness errors of nodes."""
PLACEMENT_SEC = 600.0
"""How long an attempt waits while no node accepts it."""
CANCEL_SEC = 4.0
"""How long a cancelled run waits for the records of its nodes."""
_POLL_SEC = 0.2


class RayExecutor:
    """Makes attempts on the nodes of a cluster."""

    def __init__(self, workers: int, address: str) -> None:
        """
        Raises:
            InputError: Ray is not installed.
        """
        require_ray()
        self.lost_sec = LOST_SEC
        self.placement_sec = PLACEMENT_SEC
        self._workers = workers
        self._address = address
        self._threads = LocalThreads(workers)
        self._store = ContentStore()
        self._cluster: RayCluster | None = None
        self._nodes: ClusterNodes | None = None
        self._rows: dict[str, AttemptJob] = {}
        self._demands: dict[tuple[Path, str], Demand] = {}

    def require(self, lab: Lab, rows: Sequence[PlanRow], observer: Observer) -> None:
        """Start the nodes and ask them about every task.

        Raises:
            InputError: the address of the cluster is malformed.
            HarnessError: no cluster answers, or no node can run a task.
        """
        tasks = {self._demand(row.task).key: row.task for row in rows}
        demands = [self._demand(task) for task in tasks.values()]
        terms = NodeTerms(
            settings=LabSettings.of(lab),
            requirements={key: pack_requirements(task, self._store) for key, task in tasks.items()},
            cpus=self._workers * max((demand.cpus for demand in demands), default=1.0),
            memory_mb=self._workers * max((demand.memory_mb for demand in demands), default=1),
            lost_sec=self.lost_sec,
        )
        self._cluster = RayCluster(self._address)
        self._nodes = ClusterNodes(self._cluster, self._store, terms, observer.warn)
        self._nodes.on_phase = self._phase
        self._nodes.on_status = observer.cluster
        _warn_without_token(tasks.values(), observer)
        pool = self._nodes.pool
        self._nodes.start(lambda: all(pool.refusals(demand) is None for demand in demands))
        observer.cluster(self._nodes.status())
        problems = Problems()
        for demand in demands:
            problems.collect(partial(self._require_node, self._nodes, demand))
        problems.raise_all()

    def run(self, jobs: Iterable[AttemptJob]) -> None:
        self._threads.run(partial(self._make, job) for job in jobs)

    def join(self) -> None:
        self._threads.join()

    def yield_worker(self) -> AbstractContextManager[None]:
        return self._threads.yield_worker()

    def close(self) -> None:
        """End the nodes of the run and the connection to the cluster."""
        if self._nodes is not None:
            self._nodes.close()
        if self._cluster is not None:
            self._cluster.close()
        self._store.close()

    # --- placing --------------------------------------------------------------------------------------------------------------

    def _require_node(self, nodes: ClusterNodes, demand: Demand) -> None:
        refusals = nodes.pool.refusals(demand)
        if refusals is None:
            return
        reasons = "; ".join(f"{name}: {why}" for name, why in {**nodes.refused, **refusals}.items())
        msg = f"no node of the cluster can run task {demand.task_id}: {reasons or 'it has no nodes with processors'}"
        raise SandboxUnavailable(msg, remedy="run `ab doctor --executor ray` to see what each node offers")

    def _demand(self, task: LoadedTask) -> Demand:
        key = task.folder, task.id
        if key not in self._demands:
            self._demands[key] = _demand(task)
        return self._demands[key]

    def _phase(self, attempt_id: str, phase: str, node: str) -> None:
        job = self._rows.get(attempt_id)
        if job is not None:
            job.observer.phase(job.row, f"{phase} on {node}")

    # --- one attempt ------------------------------------------------------------------------------------------------------------

    def _make(self, job: AttemptJob) -> None:
        """Make an attempt, again on another node if a node failed.

        Raises:
            RecordError: the run directory cannot be written.
            HarnessError: the cluster is gone.
        """
        job.observer.started(job.row)
        failed: list[PoolNode] = []
        for tries in range(1, MAX_TRIES + 1):
            record, node = self._make_once(job, failed)
            if node is None or job.relaunch is None or tries == MAX_TRIES:
                job.observer.finished(job.row, record)
                return
            failed.append(node)
            job.observer.warn(
                f"{job.row.task.id} · {job.row.configuration.variant}: harness error on node {node.name}, "
                f"trying another node (try {tries + 1} of {MAX_TRIES})"
            )
            job = job.relaunch(record.attempt_id)

    def _make_once(self, job: AttemptJob, failed: Sequence[PoolNode]) -> tuple[AttemptRecord, PoolNode | None]:
        """Make an attempt on one node. Return its record, and the node if that is at fault for it."""
        pool, cancelled = self._opened().pool, job.lab.cancelled
        demand = self._demand(job.row.task)
        try:
            lease = pool.acquire(demand, avoid=failed, cancelled=cancelled.is_set, max_wait_sec=self.placement_sec)
        except ClusterGone as error:
            adopt(job, Interrupted(error.message))
            raise
        except (HarnessError, Interrupted) as error:
            return adopt(job, error), None
        try:
            record = self._make_on(lease, job)
        finally:
            pool.release(lease)
        if pool.failure is not None and not cancelled.is_set():
            raise pool.failure
        at_fault = not cancelled.is_set() and _node_at_fault(record)
        return record, lease.node if at_fault else None

    def _make_on(self, lease: Lease, job: AttemptJob) -> AttemptRecord:
        nodes = self._opened()
        node = nodes.node_of(lease.node)
        if node is None:
            return adopt(job, HarnessError(f"node {lease.node.name} is lost"))
        cause = self._wait_for(node, lease, job)
        if nodes.pool.failure is not None:
            cause = Interrupted(nodes.pool.failure.message)
        record = adopt(job, cause or HarnessError(f"node {node.name} did not close the attempt's log"))
        if not job.lab.cancelled.is_set():
            nodes.judge(node, job.row.task.id, at_fault=_node_at_fault(record))
        return record

    def _wait_for(self, node: ClusterNode, lease: Lease, job: AttemptJob) -> AgentBenchError | None:
        """Send an attempt to a node and wait for its end. Return what ended it before it could close its log."""
        nodes, folder = self._opened(), job.folder
        service = AttemptService(job.row, folder, job.lab, node.fingerprint)
        service.pause = partial(self._pause, lease)
        self._rows[folder.attempt_id] = job
        nodes.begin(node, folder.attempt_id, service)
        try:
            nodes.send(node, self._sent(job))
            return self._wait(service, node, job)
        except RecordError:
            raise  # the driver cannot write the run directory, so no other attempt could be recorded either
        except HarnessError as error:
            return error
        finally:
            nodes.end(node, folder.attempt_id)
            self._rows.pop(folder.attempt_id, None)
            service.close()

    def _wait(self, service: AttemptService, node: ClusterNode, job: AttemptJob) -> AgentBenchError | None:
        nodes = self._opened()
        cancelled_at: float | None = None
        while True:
            ended = service.wait(_POLL_SEC)
            if ended is not None:
                return HarnessError(f"node {node.name}: {ended.failure}") if ended.failure else None
            if job.lab.cancelled.is_set():
                nodes.cancel.set()
                cancelled_at = cancelled_at or time.monotonic()
                if time.monotonic() - cancelled_at > CANCEL_SEC:
                    return Interrupted("interrupted")

    @contextmanager
    def _pause(self, lease: Lease) -> Iterator[None]:
        with lease.paused(), self._threads.yield_worker():
            yield

    def _sent(self, job: AttemptJob) -> SentAttempt:
        folder = job.folder
        return SentAttempt(
            attempt_id=folder.attempt_id,
            task_id=folder.task_id,
            task_dir=folder.task_dir,
            repeat=folder.repeat,
            attempt=folder.attempt,
            supersedes=folder.supersedes,
            run_id=folder.run_id,
            study_id=folder.study_id,
            text=folder.text,
            withholds=folder.withholds_text,
            keeps_originals=not isinstance(folder.originals, Discarded | None),
            base_seed=job.base_seed,
            seed=job.row.seed,
            materials=pack_materials(job.row, job.lab, self._store),
            identities=_identities(job.row, job.lab),
        )

    def _opened(self) -> ClusterNodes:
        if self._nodes is None:
            raise InputError("the executor was not opened: call `require` first")
        return self._nodes


def _identities(row: PlanRow, lab: Lab) -> dict[str, ModelIdentity]:
    """Return the models of the agent and of the judge, by role."""
    models, identities = lab.models, {}
    agent = models.identity(row)
    if agent is not None:
        identities[AGENT] = agent
    if lab.judge is not None and row.task.judge_enabled:
        judge = lab.judge.choice(row, models)
        identities[JUDGE] = models.factory.identity(judge, judge_recording(judge, row))
    return identities


def _node_at_fault(record: AttemptRecord) -> bool:
    """Return whether the record shows a harness error of the node: of its sandbox, its disk or the node itself.

    An agent cannot cause one: code that breaks its sandbox is at fault itself, so no agent gets a second try on purpose.
    """
    code = record.termination.code
    broken = code is TerminationCode.SANDBOX_ERROR and record.invalid_cause is InvalidCause.HARNESS
    ungraded = record.run_status is RunStatus.ACCEPTANCE_ERROR and record.attribution is Attribution.HARNESS
    failed = any(check.outcome is Outcome.ERROR and check.why.startswith(HARNESS_ERROR) for check in record.checks)
    return broken or code is TerminationCode.INTERRUPTED or (ungraded and failed)


def _warn_without_token(tasks: Iterable[LoadedTask], observer: Observer) -> None:
    """Warn if code of a setup with network could send commands to Ray, which accepts everybody by default."""
    reaching = [
        task.id for task in tasks if task.task.setup.commands and task.task.environment.network_policy != "none"
    ]
    if reaching and os.environ.get("RAY_AUTH_MODE") != "token":
        more = f" and {len(reaching) - 1} more" if len(reaching) > 1 else ""
        observer.warn(
            f"the setup of {reaching[0]}{more} has network and can send commands to Ray: set RAY_AUTH_MODE=token on all machines"
        )


def _demand(task: LoadedTask) -> Demand:
    environment, policy = task.task.environment, task.task.policy
    key = digest(
        [
            environment.model_dump_json(),
            policy.model_dump_json(),
            [scorer.model_dump_json() for scorer in task.scorers],
            str(task.folder) if environment.dockerfile else "",
        ]
    )
    return Demand(key, task.id, environment.cpu_limit, environment.mem_limit_mb)
