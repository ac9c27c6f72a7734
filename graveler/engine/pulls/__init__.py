"""Pull requests: create, read, update and merge them; close those of a deleted branch.

requests  create, read, update, close; start here
merge     merges one, once for each time it is opened
attempts  what is noted of the merges that have begun, and what became of them
"""
