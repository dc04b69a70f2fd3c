"""Audits the checks of a task: grades no work, the reference, and wrong variants of the reference.

    audit(context, …)            audit.py        grade all of them; which wrong variants were accepted
    variants(base, writes, …)  variants.py     wrong variants, spread over mutation operators and places
    python_changes(source)     mutations.py    mutations of Python code
    text_changes(lines)        mutations.py    mutations of code in any language, line by line

Creating variants is pure. A surviving variant may be equivalent to the reference, which only a reader can tell.
"""
