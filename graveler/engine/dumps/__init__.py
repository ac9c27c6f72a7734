"""Dumps of refs: branches, tags and commits as tables in the repository's namespace.

dump         the dump; start here
checkpoints  progress that the next attempt of a dump continues from
"""
