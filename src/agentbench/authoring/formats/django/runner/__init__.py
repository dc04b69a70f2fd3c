"""Programs that are written into tasks as hidden files and run by the sandbox's interpreter; the harness runs none of them.

Standard library only, any Python from 3.8 on, and no import of ours.
"""
