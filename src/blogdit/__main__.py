"""`python -m blogdit` is the `blogdit` command."""

from blogdit.cli import main

main()
