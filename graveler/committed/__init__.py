"""Committed state: immutable ranges of records, metaranges over them, and operations on both."""
