"""Inspection of a patch: static rules that find attempts to influence the verdict. Pure, runs nothing."""
