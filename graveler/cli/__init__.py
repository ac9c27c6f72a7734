"""The console script `graveler`.

`commands/` has a module a group of commands, and the table of all; `support/` what they share.
Client commands import nothing of the engine.
"""
