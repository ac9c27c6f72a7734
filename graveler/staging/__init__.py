"""Uncommitted changes: rows under staging tokens, and the view that merges several tokens.

area    the rows of one token; start here
stack   the tokens of one branch record as one view, newest first
shapes  a fast reader for the value of a row
"""
