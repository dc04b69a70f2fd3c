"""Compares an agent that is a Python function with one that does nothing."""

import agentbench as ab

FIX = r"s/^    return ordered\[middle\]/    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) \/ 2/"


@ab.agent
def one_line_fix(session: ab.Session, setup: ab.AgentSetup) -> str:
    """Change one line. A real agent would read `session.briefing.text` and ask `setup.model`."""
    session.run(f"sed -i '{FIX}' tinystats/__init__.py")
    return "the tests pass" if session.run("python -m pytest -q").ok else "the tests fail"


nothing = ab.run("tasks/mine", agent="noop")
fixed = ab.run("tasks/mine", agent=one_line_fix)
print(fixed.runs[0].headline)
print(fixed.attempts[0].termination.rationale)
print(ab.compare(nothing.runs[0], fixed.runs[0]).headline)
