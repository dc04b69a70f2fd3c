"""Sandboxes as Docker containers, through the docker command line.

Owns everything that knows of engines, images and containers. The command server, its channel and the protocol are those
of every backend; nothing outside of this folder knows that docker exists, the registry apart.
"""
