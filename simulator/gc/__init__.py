"""Simulated garbage collection beside all verbs that may begin to use a file."""
