"""`python -m blogdit` is the `blogdit` command."""

from blogdit.cli.app import main

main()
