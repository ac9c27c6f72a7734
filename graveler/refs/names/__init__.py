"""Names: repositories, branches and tags, and the expressions that refer to them.

branches, tags, pulls           records of branches, of tags, of pull requests
repositories                    records of repositories
creations, deletions, restores  notes of repositories that begin, end, or are restored
purge                           removes records of deleted branches and tags
expression, resolve             parses ref expressions; resolves them to commits
"""
