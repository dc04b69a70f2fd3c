"""The judge: a language model that reads the task and the trajectory of an attempt and answers a fixed rubric.

It never gates.

    judge(model, case, …)     ask.py        ask, read the answers
    conclude(judgements, …)   ask.py        combine the answers into one result
    evidence(case)            evidence.py   the text that the judge reads, every piece marked as data
    read_answer(text)         answer.py     parse a reply against the schema
    rubric_v1.txt                           the fixed instructions; every result records their digest
"""
