"""Prompts as versioned files. A file never changes once it was used: a new wording is a new version."""
