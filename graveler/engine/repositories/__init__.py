"""Repositories.

repository        create, find, delete; free metadata; start here
initial           the files that a repository holds from its creation
break_parameters  where the ranges of a repository end
verify            reads everything reachable and reports damage
purge             removes what a deleted repository had, after the undo period
"""
