"""Every table and figure of the paper from one command, against live baselines.

| file | what it does |
|---|---|
| `suites`, `user_suite` | what is compared: cases (columns) and systems (rows); a suite of the user's own instances |
| `datasets`, `own` | the sets of instances, published or generated; problems as users write them down |
| `variants`, `systems/` | blogdit and its variants; one file per baseline |
| `runner`, `calls` | runs what is missing, call by call, and keeps records |
| `records`, `measures` | the records; means and times from them |
| `tables`, `worth`, `markdown`, `plots`, `report` | tables, figures, a page of them |
| `trajectory` | the paths through the assignments of one Sudoku |
"""
