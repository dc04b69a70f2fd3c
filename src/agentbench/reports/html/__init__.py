"""HTML report: a folder with one page that opens from `file://` and needs no network.

Owns the page, its data and its side files. Untrusted text travels as JSON and is shown as text nodes; the content
security policy allows only the page's own script. Must not grade, run or change a run directory.
"""
