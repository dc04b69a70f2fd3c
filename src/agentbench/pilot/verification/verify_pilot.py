"""Verify a pilot: recompute its registrations, plan, order of attempts, decisions, removals and verdicts.

Needs the folder of the pilot only. Each registration is verified with the copy of the files that it froze, and each decision
with the records that it was based on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentbench.core.errors import AgentBenchError
from agentbench.pilot.decisions.log_signature import check_log_signature
from agentbench.pilot.folder import REGISTRATIONS
from agentbench.pilot.pilot_state import PilotState, read_registered_state, registered_files
from agentbench.pilot.registration.registration import Registration
from agentbench.pilot.registration.signature import check_signatures
from agentbench.pilot.verification.attempts import check_attempts, check_launches, check_runs
from agentbench.pilot.verification.decisions import check_decisions, check_removals
from agentbench.pilot.verification.registrations import check_registration
from agentbench.pilot.verification.result import PilotVerification
from agentbench.pilot.verification.tables import check_tables
from agentbench.record.attempt_audit import Recompute
from agentbench.signing.trust import Trust


def verify_pilot(
    folder: Path, recompute: Recompute, trust: Trust | None = None, *, signature_required: bool = False
) -> PilotVerification:
    """Verify everything that a pilot has recorded, and the signatures of its registrations and logs.

    Signatures of its runs are not checked here. If no signature is required, only one that does not match is a problem.
    """
    result = PilotVerification(folder)
    try:
        state = read_registered_state(folder)
    except AgentBenchError as error:
        result.add("changed", str(folder), error.message)
        return result
    for registration in state.registrations:
        check_registration(state, registration, result)
    result.registrations = check_signatures(folder, state.registrations, trust, required=signature_required)
    result.problems += result.registrations.problems
    ids = [registration.registration_id for registration in state.registrations]
    result.logs = check_log_signature(folder, ids, trust, required=signature_required)
    result.problems += [result.logs.problem] if result.logs.problem else []
    check_runs(state, recompute, result)
    try:
        history = [_registered(state, registration) for registration in state.registrations]
    except AgentBenchError as error:
        result.add("changed", REGISTRATIONS, error.message)
        return result
    check_attempts(state, history, result)
    check_launches(state, history, result)
    check_decisions(state, history, result)
    check_removals(state, history, result)
    check_tables(state, result)
    return result


def _registered(state: PilotState, registration: Registration) -> PilotState:
    """Return the state with the configuration and the plan of a registration.

    Raises:
        InputError: its files are missing or were edited.
    """
    pilot, lines = registered_files(state.folder, registration)
    return replace(state, pilot=pilot, lines=lines, registrations=state.registrations[: registration.number])
