"""Garbage collection on Spark; `collect.py` describes a run."""
