"""Commits: the verbs that move the head of a branch, and the verbs that compare commits.

commit         turns staged rows into a commit; start here
heads          reads branch records and commits, fresh or cached; swaps a branch record
seal           takes staging tokens off a branch; commit, merge and hard reset share it
scan           reads the rows of sealed tokens
search         finds a commit in a history, by an idempotency key, a swap or a token
swaps          the swaps that a verb has sent: the journal of them, and what a record says of one
lane           verbs of one process that move a head take turns
land           puts a branch on a commit that is not made from its staged rows
merge          three-way merge
merge_preview  what a merge would do
replay         revert and cherry-pick
reset          drops staged changes
adopt          commit records, metaranges and ranges given by id
log            history and merge bases
diff           compares two refs, or a branch and its head
commit_graph   everything that heads lead to
summary        counts and bytes for each child of a prefix
messages       limits of messages and metadata, texts that clients compare
"""
