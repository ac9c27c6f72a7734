"""Commits: everything that moves the head of a branch, and what compares commits.

records    branch records and commits as the verbs read them (fresh or cached)
seal       takes staging tokens off a branch; commit, merge and reset share it
scan       reads the rows of sealed tokens
commit     turns staged rows into a commit; start here
land       puts a commit on a branch that was not made from its staged rows
merge      three-way merge          replay   revert and cherry-pick
reset      drops staged changes     adopt    commit records and files from elsewhere
log        history and merge bases  diff     two refs, or a branch and its head
messages   bounds of messages and metadata, texts that clients compare
"""
