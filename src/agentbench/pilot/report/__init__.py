"""Owns status and report of a pilot, as text, tables and a page."""
