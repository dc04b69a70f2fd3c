"""What runs inside a sandbox, with that sandbox's interpreter: standard library only.

Owns the forwarder from loopback to the gateway's socket. Must not import anything of ours.
"""
