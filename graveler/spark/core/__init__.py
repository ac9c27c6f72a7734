"""How tasks make and read ranges: pure functions over Arrow columns, and the tasks that call them.

cuts, tasks      cut a key space; one task writes the ranges of one bucket
columns, check   the columns of an import and their rules
encode, pairs    entries to stored bytes
build            ranges from columns (`graveler.arrow` makes columns from ranges)
merge, overlay   put entries onto a base
merge_columns    puts the rows of an import onto one
join             the ranges of all buckets as one list
repack, layouts  ranges with other break parameters
compare          what differs between two commits
range_rows       ranges as rows of a DataFrame
"""
