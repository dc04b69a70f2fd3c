"""Programs that run inside a sandbox: standard library only, Python 3.8 or newer.

- `server.py`: the command server, PID 1 of every sandbox; joined with `capture.py`, `job.py`, `process_tree.py` and
  `exec_observer.py` into one file
- `writer.py`, `walker.py`: loaded by the server when the host writes files or lists them
- `forward.py`: forwards a loopback port to a unix socket
- `isolation_probe.py`: run by `ab doctor` to test what a sandbox can reach
- `prepare_image.py`: run once in a container when docker prepares an image

Nothing here may import another package of the harness. Everything is read-only inside.
"""
