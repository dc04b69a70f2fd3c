"""Runs attempts on the nodes of a Ray cluster; the driver, which alone writes run directories, is the process of `ab run`.

Ray places one actor per node and tells when it dies. Everything else goes through one channel between each node and the driver,
encrypted and authenticated in both directions: files of tasks, evidence, model requests, budgets and questions. Keys of models
and secrets of the restricted store stay with the driver. Only `ray_cluster` imports Ray.
"""
