"""Types and functions that every layer shares.

Owns errors, outcome enums, commands, canonical JSON and digests, ids, file locks and atomic writes. Must not import any
other package of the project, start processes or open sockets.
"""
