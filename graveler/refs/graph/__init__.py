"""The commit graph.

commits  commit records and fold records; start here
graph    ancestors and merge bases
log      the log
table    commits by generation
"""
