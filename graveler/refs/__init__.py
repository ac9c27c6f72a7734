"""Records of repositories, of the names of commits, and of the work on them.

Read `keys.py`, then `branches.py`.
"""
