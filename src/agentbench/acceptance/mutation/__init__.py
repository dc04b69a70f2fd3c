"""How good is an oracle: what it says about no work, about the reference, and about wrong variants of the reference.

    audit(context, …)            audit.py      grade all of them; which wrong variants were accepted
    variants(base, writes, …)  variants.py   wrong variants, spread over operators and places
    python_changes(source)     python.py     what can be made wrong in Python code
    text_changes(lines)        lines.py      the same in code of any language, by its lines

Making variants is pure; a variant that survives may also be equivalent to the reference, which only a reader can tell.
"""
