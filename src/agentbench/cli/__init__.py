"""The command line. One verb is one file; each exposes `command`.

Owns words for people: arguments, progress, exit codes. Everything heavy is imported inside the verb's function, so that
`ab --help` starts at once.
"""
