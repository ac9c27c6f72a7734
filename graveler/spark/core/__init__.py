"""How tasks make and read ranges: pure functions over Arrow columns, and the tasks that call them.

cuts, tasks       cut a key space; one task writes the ranges of one bucket
columns, check    the columns of an import and their rules
encode, decode    entries to stored bytes and back
entry_columns, pairs, vectors   parts of both
build, scan       ranges from columns, and columns from ranges
merge, overlay    put entries onto a base
join              the ranges of all buckets as one list
repack, layouts   ranges with other break parameters
compare           what differs between two commits
"""
