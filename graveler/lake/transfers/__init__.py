"""Transfers between folders and branches, for commands.

`receive` and `send` move one file, `workers` runs many at once.  `sync` and `commit` keep a folder
in step with a prefix of a branch, as lakectl does in the same folder.
"""
