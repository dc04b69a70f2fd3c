"""Owns what changes a pilot: freezing or amending it, carrying out a stage, removing a task."""
