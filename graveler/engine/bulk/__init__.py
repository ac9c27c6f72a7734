"""Bulk jobs: a cluster writes ranges, and one call turns them into a commit; read job.py first."""
