"""Imports: add objects of other buckets and folders to a branch, as one commit, without a copy.

run      the import itself; start here
sources  the objects of a source, in the order of their paths
records  the entries of an import: few in memory, the rest in ranges
"""
