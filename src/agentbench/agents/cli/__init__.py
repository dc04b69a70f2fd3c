"""Third-party command line agents: `--agent cli:NAME`.

Owns a profile of each program (where to install it from, how to run it unattended, how it reaches its model), the layer of its
installed files, and the agent that runs it. A layer is mounted read-only, and only in the agent's sandbox. Must not grade
anything or know about tasks.
"""
