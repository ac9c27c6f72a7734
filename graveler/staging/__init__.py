"""Uncommitted changes: rows under staging tokens, and the view that merges several tokens."""
