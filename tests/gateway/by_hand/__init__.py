"""Clients of S3 that `make test` does not run, because they need node or download PyTorch.

`make more-clients` runs them (run.py).  docs/reference/compatibility.md has the results.
"""
