"""Records of jobs.

record  job records and their orders
turn    the record that allows one collection of a repository at a time
"""
