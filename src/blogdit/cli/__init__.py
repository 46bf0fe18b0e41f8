"""The commands of `blogdit`, one file each. A new command is a new file here and a line in `blogdit.cli.app`."""
