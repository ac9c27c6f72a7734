"""Repositories: create, find, delete, verify and purge them.

repository        create, find, delete; metadata pairs; start here
initial           the files that a repository contains from its creation
rules             branch protection rules: read, replace, add and remove
break_parameters  the parameters that decide where the ranges of a repository end
verify            reads everything reachable and reports damage
purge             removes the rows and files of a deleted repository, after the undo period
"""
