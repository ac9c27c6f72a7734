"""The verbs: one module each, functions over the frozen record `Ports`.  `commit.py` is the one to
read first."""
