"""Every table and figure of the paper from one command, against live baselines.

`suites` says what is compared, `runner` compares it and writes records, `tables` and `plots` show the
records.
"""
