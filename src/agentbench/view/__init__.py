"""The live web view: an index of run directories, their data for the page, live events, an explorer, and actions of people.

Serves the same page as `ab report --format html`, with HTTP instead of files as its source. Everything it shows is read from run
directories. Must not write anything that no command of `ab` writes, or open a file that a client names.
"""
