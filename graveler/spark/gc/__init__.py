"""Garbage collection on Spark.

collect    the collection; start here
scopes     repositories, their roots, earlier runs
listing    what is stored          uses   what is used
sweep      deletes                 leftovers   files that jobs left behind
"""
