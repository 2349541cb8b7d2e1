"""The command line: one file per command. What is slow to import is imported inside the commands."""
