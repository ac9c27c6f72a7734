"""Dumps of refs: branches, tags and commits as tables in the repository's namespace.

dump         the dump; start here
restore      a dump into a bare repository on the same namespace
checkpoints  progress that the next attempt of a dump continues from
"""
