"""Secrets in the files of base repositories.

detectors.py   the detectors of the library detect-secrets
rules.py       which values in a text are secrets
usage.py       passwords in commands, connection strings, XML and login files
scan.py        the secrets of one base repository, bounded and cached
"""
