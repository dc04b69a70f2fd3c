"""Reports: what people and CI systems read about finished runs.

Owns words, tables and files made from records: summaries, paired comparisons, cards. Reads run directories and CSV files of
results made elsewhere. Must never run, grade or change anything, and never show hostile text raw: agents choose test names,
file names and messages, and every format has its own way to be fooled by them (`escape`).
"""
