"""The HTML report: a folder with one page that opens from `file://`, needs no network and trusts nothing it shows.

Owns the page, its data and its side files. Everything an agent could have chosen travels as JSON and is shown as text nodes; the
page's policy (CSP) lets no other script run than its own. Must not grade, run, or change a run directory.
"""
