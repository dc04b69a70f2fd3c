"""Plug-ins: finding and loading objects that other packages, or a notebook, add to AgentBench.

A plug-in of any kind is one function. A package declares it as an entry point of the kind's group; a script or a notebook
registers it in its process. Every package that offers a kind has one `Extensions`, which finds both by name.

    kinds.py        the kinds and their entry-point groups
    discovery.py    installed plug-ins, from the metadata of packages alone; loading one
    extensions.py   what one kind has besides its built-in names

Must not import anything of AgentBench but `core`, and must not import a plug-in before it is used.
"""
