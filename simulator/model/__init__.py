"""The model of a repository: dictionaries that give the right answer of every verb.

model  the right answer of every verb, as simply as possible; start here
merge  merges and differences
views  listings and logs
"""
