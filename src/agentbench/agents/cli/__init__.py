"""Programs of others as agents: `--agent cli:NAME`.

Owns what is known of each program (where it comes from, how it is run without a person, how it finds the model), the layer
that holds its installed files, and the agent that runs it. A layer is mounted read-only in the agent's sandbox alone.
Grades nothing, and knows nothing of tasks.
"""
