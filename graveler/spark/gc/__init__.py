"""Garbage collection on Spark.

collect    the collection; start here
scopes     repositories, their roots, earlier runs
listing    lists what is stored
uses       finds what is in use
sweep      deletes
leftovers  deletes files that ended jobs left
"""
