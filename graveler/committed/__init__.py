"""Committed state: immutable ranges of records, metaranges over them, and operations on both.

`ranges.py` is the contract, `sstable.py` the store of production, `table.py` draws a table.
"""
