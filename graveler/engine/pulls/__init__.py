"""Pull requests: create, read, update and merge them; close those of a deleted branch.

Read requests.py, then merge.py.
"""
