"""Clients of S3 with packages of their own, unmodified, on branches: each in a process of the
environment `.venv-clients`.  docs/reference/compatibility.md has what works.

`elsewhere.py` starts the process and calls what is there; `called.py` is that process.
"""
