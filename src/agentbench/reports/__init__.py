"""Owns summaries, paired comparisons, gates, counterfactuals, terminal cards and the HTML page, made from records.

Reads finished runs. Must not run, grade or change anything, except to write the report it was asked for.
"""
