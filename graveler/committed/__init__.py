"""Committed state: immutable ranges of records, metaranges over them, what follows from both."""
