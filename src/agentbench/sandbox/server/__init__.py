"""What runs inside a sandbox: standard library only, python 3.8 or newer, no import of ours.

`server.py` (begun by `start.py`) is PID 1 of a sandbox; `writer.py` is loaded by it when files are to be written; `probe.py` is what
`ab doctor` runs to see what a sandbox can reach; `forward.py` leads loopback to the socket of a door. All but
`forward.py` are compiled for the sandbox's interpreter; everything is bound read-only.
"""
