"""Every bound of the system, with its unit in its name.

What is refused, how long anything may take, how often anything is tried.  Drivers of every kind
keep the same bounds, so
that what works on a laptop works on DynamoDB (sort key 1,024 bytes, item 400 KB) too.  Pure
constants; everybody may
import this.
"""

SECOND_NS = 1_000_000_000

# names and records
path_length_bytes_max = 1_024
name_length_max = 255
message_length_bytes_max = 64 * 1024
metadata_pairs_max = 1_000
metadata_length_bytes_max = 64 * 1024
object_metadata_length_bytes_max = 8 * 1024
address_length_bytes_max = 2_048
content_type_length_bytes_max = 512
checksum_length_bytes_max = 256
kv_partition_length_bytes_max = 2_048
kv_key_length_bytes_max = 1_024
kv_value_length_bytes_max = 390 * 1024
kv_batch_count_max = 1_000
scan_page_count_max = 10_000

# pages and batches of the API
page_count_default = 100
page_count_max = 1_000
bulk_delete_count_max = 1_000
block_delete_count_max = 1_000
import_paths_count_max = 100
log_paths_count_max = 100
range_header_length_max = 128
json_body_length_bytes_max = 4 * 1024 * 1024
multipart_parts_count_max = 10_000

# connections of the HTTP service
connections_max = 2_000
connections_per_address_max = 500
connections_refused_max = 100  # that may still send before they are closed
connection_idle_seconds = 75
connection_progress_seconds = 20  # what moves too slowly for so long is cut
connection_rate_bytes_min = 1_024  # a second, of a body or of an answer that is being read
connection_linger_seconds = 10  # the rest of a request that was answered early
connection_linger_bytes_max = 64 * 1024 * 1024
connection_pipeline_count_max = 16  # requests that wait for the answer to one before them
open_body_length_bytes_max = 16 * 1024  # of calls that need no credentials
request_head_bytes_max = 64 * 1024  # and so many of the trailers of a body
request_head_seconds = 20

# the protocol of branches and staging
operation_seconds_max = 29
commit_seconds_max = 14 * 60
commit_rows_max = 1_000_000  # staged rows that one process scans; more are a cluster's to commit
import_seconds_max = 11 * 3600
dump_seconds_max = 11 * 3600
job_run_count_max = 12  # in a row that add nothing to what a collection or dump has found out
job_restart_count_max = (
    4  # runs of a commit, merge, landing, import or batch that get it no further
)
batch_restart_seconds = 24 * 3600  # of such runs of a batch, too: an outage is shorter
job_seconds_max = 11 * 3600  # older ones are not begun once more, however far they are
step_row_count = 50_000  # of what a collection has found out, and may find out again
step_length_bytes_max = 256 * 1024 * 1024  # of the names in one range, packed as it may be
import_spill_count = 100_000  # records that an import holds in memory, and lists again at most
bulk_checked_records_max = 50_000  # of what others wrote; of more, ranges spread evenly
bulk_heartbeat_seconds = 30
bulk_purpose_length_max = 2_048  # characters: a few words and a path
bulk_page_count_max = 10_000
bulk_page_bytes_max = 3 * 1024 * 1024  # of staged values; a function's answer has 6 MiB at most
write_attempt_count_max = 32  # six are lost now and then where four committers seal all the time
write_attempt_seconds_max = 20
commit_round_count_max = 12
landing_round_count_max = 100  # twelve are lost in two of 5,000 merges beside three clients
conditional_round_count_max = 24
sealed_token_count_max = 192  # more than resets and 60 commits that failed leave
reset_token_count_max = 128  # sealed tokens, two for each reset of a path or prefix
equal_commit_count_max = 64  # that were asked for with `allow_empty` within one second
staging_shard_count_max = 64
# A token has a shard for so many rows.  A partition of DynamoDB takes 1,000 a second: 8 seconds of
# all that it bears.  And they are some three of its pages of 1 MB: a further shard costs a listing
# one Query and a commit two, and none of them is for a page that is nearly empty.
staging_shard_rows_count = 8_000
branch_cache_seconds_max = 2
repository_cache_seconds_max = 10
token_grace_seconds = 3_600
unnamed_token_seconds = 24 * 3_600  # the grace of a token that no record has named yet
fold_record_keep_seconds = 24 * 3600
branch_purge_seconds = 24 * 3600
sweep_records_count_max = 10_000  # of a kind, that a round of the janitor forgets
link_address_seconds = 24 * 3600
job_record_keep_seconds = 24 * 3600
job_lease_seconds = 60  # a job whose runner was silent for longer is taken over
job_attempt_count_max = 5
copy_in_request_bytes_max = 1024 * 1024 * 1024  # of an object; a longer copy is a job's
presign_seconds_max = 15 * 60
collect_min_age_seconds = 24 * 3600  # no operation lives half as long
retention_days_max = 36_500
retention_branches_max = 1_000
collect_undo_seconds = 24 * 3600
collect_turn_seconds = 15 * 60  # of a cluster, from its last beat on
collect_condemn_count_max = 1_000  # metaranges that a call of a cluster may name
collect_mark_count_max = 4_000  # put by one call: a look at each metarange fits into a request
collect_period_seconds = 24 * 3600
collections_ordered_max = 20  # by one round of the janitor
purges_ordered_max = 20  # likewise
collect_files_max = 4_000_000  # 380 bytes of memory each: what a worker with 2 GB collects
collect_commits_max = 500_000
collect_given_up_seconds = 30 * 24 * 3600  # before a schedule tries once more

# objects
data_partition_objects_max = 10_000  # that one process puts into a folder of `data/`

# commits
walk_count_max = 10_000
graph_visit_count_max = 5_000_000
ref_modifier_count_max = 100
ref_distance_max = 10_000_000
ref_length_max = 1_024
conflict_paths_reported_max = 100

# events
event_batch_objects_max = 1_000_000
event_batch_seconds_max = 24 * 60 * 60
event_rules_max = 10_000
event_batches_closing_max = 100
event_seconds = 15 * 24 * 60 * 60  # longer than a notification can be on its way

# tables
table_block_length_bytes_max = 4 * 1024 * 1024
table_block_records_count_max = 128 * 1024
table_block_expanded_bytes_max = 16 * 1024 * 1024  # keys written whole, and 100 bytes each
table_length_bytes_max = 2 * 1024 * 1024 * 1024
table_records_count_max = 50_000_000
range_size_bytes_default = 20 * 1024 * 1024
range_size_bytes_max = 64 * 1024 * 1024  # whoever writes a range holds it
range_raggedness_max = 50_000_000
range_salt_bytes_max = 64
range_raggedness_default = 10_000
range_raggedness_unrecorded = 50_000  # of a repository whose record names none

# streams
chunk_length_bytes = 256 * 1024
object_size_bytes_max = 5 * 1024 * 1024 * 1024 * 1024
