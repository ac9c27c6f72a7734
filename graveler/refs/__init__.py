"""Repositories, branches, tags, commits: their records, the texts that name them, their graph."""
