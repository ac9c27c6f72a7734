"""Imports: objects that lie elsewhere become paths of a branch, as one commit, without a copy.

run      the import itself; start here
sources  which objects a source names, in the order of their paths
records  the entries of an import: few in memory, the rest in ranges
"""
