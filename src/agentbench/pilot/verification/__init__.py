"""Owns `ab verify` of a pilot: recomputes registrations, plan, order of attempts, decisions and removals."""
