"""Patches: parsing, applying in memory, comparing trees, extracting and rendering."""
