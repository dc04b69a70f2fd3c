"""Secrets in the files of base repositories.

detectors.py   the detectors of the library detect-secrets
rules.py       which values in a text are secrets
scan.py        the secrets of one base repository, bounded and cached
"""
