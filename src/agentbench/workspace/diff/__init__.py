"""Patches: parse, apply, compare trees, extract and render."""
