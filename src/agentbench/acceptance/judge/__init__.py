"""The judge: a language model reads what an attempt was asked and did, and answers a fixed rubric. It never gates.

judge(model, case, …)   judge.py      ask, read the answers, count how far they agree
evidence(case)          evidence.py   what the judge gets to read, every piece marked as data
read_answer(text)       answer.py     a reply held against the schema
rubric_v1.txt                         the fixed instructions; their digest stands in every result
"""
