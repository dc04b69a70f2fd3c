"""The gateway: the only way from a program in a sandbox to a model.

Owns an HTTP/1.1 server on a unix socket, one per attempt, which speaks three API dialects and sends keep-alives during long
waits. Its clients are hostile. Requests go to the metered model and nowhere else. Must not hold a key, know a budget or decide
what a request costs.
"""
