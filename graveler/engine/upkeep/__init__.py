"""Upkeep of all repositories.

janitor  deletes records and rows that nothing can need any more
rounds   visits all repositories within a time limit
"""
