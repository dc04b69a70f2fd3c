"""The spawner: a small process beside the harness that starts sandboxes and cleans up behind them.

It exists because the parent-death signal follows the thread that started a process, and because a process with threads
must not fork and then do real work. It is single-threaded, lives as long as its backend and holds the owner's lock.
When the harness exits or is killed, it kills every sandbox and removes what they left. It imports nothing of the
harness but this package (`python -I -S`), so that forking it stays cheap.
"""
