"""Every limit of Graveler as a constant, with the unit in its name.

The limits say which input is refused, how long an operation may take, and how often it is retried.
All drivers keep the same limits, so that code that works on a laptop also works on DynamoDB (sort
key 1,024 bytes, item 400 KB).  Pure constants; every module may import this.
"""

SECOND_NS = 1_000_000_000

# names and records
path_length_bytes_max = 1_024
name_length_max = 255
message_length_bytes_max = 64 * 1024
pull_title_length_max = 1_024  # characters
pull_description_length_bytes_max = 64 * 1024
pull_page_rows_max = 10_000  # requests that one page may look at, to find those of one state
comments_max = 1_000  # of one pull request
comment_length_bytes_max = 16 * 1024
comment_row_length_bytes_max = 1_024
comments_page_count_max = 100
protection_rules_max = 100  # of one repository; a pattern has `name_length_max` characters
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
page_seconds_max = 10  # of a page that can be continued: it then ends with what it has found
jobs_page_count_max = 100  # each with its order, which may have 390 KiB
bulk_delete_count_max = 1_000
bulk_delete_share_count_max = 16  # of a bulk deletion: as many as a fan-out has threads
block_delete_count_max = 1_000
import_paths_count_max = 100
log_paths_count_max = 100
log_older_count_max = 100  # in a row, before a log of the time since then ends
log_front_count_max = 64  # lines of development that cross a page: its token names them all
range_header_length_max = 128
json_body_length_bytes_max = 4 * 1024 * 1024
multipart_parts_count_max = 10_000
put_length_bytes_max = 5 * 1024 * 1024 * 1024  # of one request of an S3 client
multipart_part_bytes_min = 5 * 1024 * 1024  # of every part but the last
multipart_upload_seconds = 7 * 24 * 3600  # from its begin; then its parts are discarded
stale_upload_seconds = 8 * 24 * 3600  # then the local store discards one whose record is gone
multipart_upload_keep_seconds = 24 * 3600  # a completed upload is remembered
multipart_scan_count_max = 10_000  # records that one page of uploads looks at
part_page_count_max = 1_000  # parts on one page of a list of parts
part_copy_bytes_max = 256 * 1024 * 1024  # of one part: the service reads and writes it

# the S3 gateway
xml_delete_bytes_max = 4 * 1024 * 1024  # 1,000 keys of 1,024 bytes, many of them escaped
xml_delete_elements_max = 6_010  # 1,000 keys, each with a version and conditions
xml_parts_bytes_max = 4 * 1024 * 1024
xml_parts_elements_max = 50_010  # 10,000 parts, each with number, etag and checksums
xml_tag_length_max = 1_024
xml_namespaces_max = 8
xml_depth_max = 8
bucket_page_count_max = 10_000

# connections of the HTTP service
connections_max = 2_000
connections_per_address_max = 500
connections_refused_max = 100  # refused ones that wait for their client to close; others close now
connection_idle_seconds = 75
connection_progress_seconds = 20  # a transfer below the minimum rate for this long is cut off
connection_rate_bytes_min = 1_024  # per second, of a request body or of an answer being read
connection_linger_seconds = 10  # to drain the rest of a request that was answered early
connection_linger_bytes_max = 64 * 1024 * 1024
connection_warnings_per_minute_max = 20  # log lines about malformed requests, of all addresses
open_body_length_bytes_max = 16 * 1024  # for calls that need no credentials
request_head_bytes_max = 64 * 1024  # the same limit holds for the trailers of a body
request_head_lines_max = 256
request_head_seconds = 20

# the protocol of branches and staging
operation_seconds_max = 29
commit_seconds_max = 14 * 60
commit_rows_max = 1_000_000  # staged rows that one process scans; a cluster commits more
import_seconds_max = 11 * 3600
dump_seconds_max = 11 * 3600
restore_records_max = 500_000  # of one kind; a worker keeps them all in memory
restore_bytes_max = 256 * 1024 * 1024  # of one kind: files, and again the records in them
commit_parents_max = 1_000  # of a restored commit
job_run_count_max = 12  # attempts in a row of a collection or dump that add no checkpoint
# Attempts in a row of a commit, merge, landing, import, copy or batch that make no progress.
job_restart_count_max = 4
# From the time that a batch was closed, handed on or begun last until the tick hands it on again.
# Longer than any worker runs, so that a commit is not begun again while it runs: a worker has a
# minute beside the commit.
batch_again_seconds = commit_seconds_max + 2 * 60
batch_restart_seconds = 24 * 3600  # a batch is retried at least this long: outages are shorter
# Until a message is delivered again whose job could not be run, or whose events not be taken in.
job_again_seconds = 2 * 60
# The same for a message that is no job or no notification.  With the deliveries of its queue that
# is ten minutes, in which an upgrade ends that sends jobs of a new kind to workers of the old
# release.
no_job_again_seconds = 10
# No collection or dump that is older is begun again, whatever its progress, and no older job waits
# any longer for stores that do not answer.
job_seconds_max = 11 * 3600
step_row_count = 50_000  # rows in a checkpoint; the next attempt may repeat this much work
# Of one checkpoint, compressed or not.  It may hold all names of one range.
step_length_bytes_max = 256 * 1024 * 1024
import_skipped_examples_max = 10
import_spill_count = 100_000  # records that an import keeps in memory, and may have to list again
bulk_checked_records_max = 50_000  # records read of a foreign metarange; beyond it, a sample
bulk_heartbeat_seconds = 30
bulk_purpose_length_max = 2_048  # characters: a few words and a path
bulk_splice_prefixes_count_max = 10_000  # to replace and to guard, each
bulk_splice_length_bytes_max = 160 * 1024  # of both lists in an order, which is one row
bulk_entries_count_max = 1_000  # of a landing whose metarange the service writes
bulk_tokens_count_max = 16  # of one job: each begin may ask for one
stream_length_bytes_max = 256
stream_mark_keep_seconds = 366 * 24 * 3600  # after its last batch
bulk_page_count_max = 10_000
bulk_page_bytes_max = 3 * 1024 * 1024  # of staged values; a Lambda response has at most 6 MiB
upload_batch_count_max = 128  # small uploads that share syncs
upload_batched_bytes_max = 64 * 1024  # of one of them
write_attempt_count_max = 32  # with four clients that seal all the time, a write may lose six
write_attempt_seconds_max = 20
commit_round_count_max = 12
# Of a verb that changes a head; then others in this process go on beside it.
turn_seconds_max = 2.0
landing_round_count_max = 100  # beside three other clients, 2 of 5,000 merges lose twelve rounds
conditional_round_count_max = 24
sealed_token_count_max = 192  # more than resets and 60 failed commits leave behind
reset_token_count_max = 128  # sealed tokens; each reset of a path or prefix adds two
equal_commit_count_max = 64  # equal commits with `allow_empty` within one second
staging_shard_count_max = 64
# A staging token has one shard per this many rows.  A DynamoDB partition takes 1,000 writes a
# second, so a full shard is 8 seconds of its maximum load.  It is also about three pages of 1 MB.
# Each further shard costs a listing one Query and a commit two; at this size no Query reads a page
# that is nearly empty.
staging_shard_rows_count = 8_000
branch_cache_seconds_max = 2
rendered_lines_bytes_max = 8 * 1024 * 1024  # of one kind of listing; about 8,000 lines
repository_cache_seconds_max = 10
token_grace_seconds = 3_600
unnamed_token_seconds = 24 * 3_600  # grace period of a token that no record names yet
fold_record_keep_seconds = 24 * 3600
branch_purge_seconds = 24 * 3600
sweep_records_count_max = 10_000  # records of one kind that one janitor round deletes
link_address_seconds = 24 * 3600
job_record_keep_seconds = 24 * 3600
job_step_seconds_max = 75  # between two heartbeats: the longest hook, with what is noted of it
job_lease_seconds = 90  # without a heartbeat for longer, another worker takes the job over
job_attempt_count_max = 5
copy_in_request_bytes_max = 1024 * 1024 * 1024  # of an object; a job copies a larger one
presign_seconds_max = 15 * 60
collect_min_age_seconds = 24 * 3600  # every operation ends in less than half this time
retention_days_max = 36_500
retention_branches_max = 1_000
collect_undo_seconds = 24 * 3600
collect_turn_seconds = 15 * 60  # lease of a cluster's collection, from its last heartbeat
collect_condemn_count_max = 1_000  # metaranges that one call of a cluster may name
collect_mark_count_max = 4_000  # marks put by one call: one request has time to check them all
collect_period_seconds = 24 * 3600
collections_ordered_max = 20  # jobs ordered by one janitor round
purges_ordered_max = 20  # jobs ordered by one janitor round
purge_eager_seconds = 3 * 24 * 3600  # that a purge is due and every round tries it, failed or not
purge_retry_seconds = 24 * 3600  # from the failure of an older purge until a round tries it again
collect_files_max = 4_000_000  # 380 bytes of memory each: the limit of a worker with 2 GB
collect_commits_max = 500_000
# Files of jobs on Spark that one collection of a worker removes: ten requests, so that its time is
# for garbage.  The next collection removes more.
collect_leftovers_max = 10_000
collect_size_seconds = 30 * 24 * 3600  # until the schedule tries again what was too large

# objects
data_partition_objects_max = 10_000  # objects that one process puts into one folder of `data/`

symlink_objects_max = 500_000  # of one export; a request has time for no more

# commits
walk_count_max = 10_000
stream_walk_count_max = 1_000  # commits whose metadata is looked at for a batch: about 5 s on AWS
graph_page_count_max = 2_000  # commits of one page of the graph
graph_heads_count_max = 100
graph_waiting_count_max = 400  # lines of development that cross a page: its token names them all
graph_scan_count_max = 6  # requests for the table of commits that one page sends
graph_text_length_max = 200  # characters of a committer, or of a subject, in the graph
graph_visit_count_max = 5_000_000
ref_modifier_count_max = 100
ref_distance_max = 10_000_000
ref_length_max = 1_024
conflict_paths_reported_max = 100
merge_resolutions_count_max = 1_000
merge_resolutions_length_bytes_max = 32 * 1024  # of all prefixes: the commit's metadata holds them

# access control
resource_length_max = 8 * 1024  # characters of a name; nobody has rights on a longer one
policy_length_bytes_max = 10 * 1024  # of its statements as JSON
policy_statements_count_max = 100
policy_resources_count_max = 100  # of one statement
entity_id_length_max = 100  # of users, groups, policies
entity_text_length_max = 1_000  # email, name, description
user_groups_count_max = 200
attached_policies_count_max = 100  # attached to one user, and to one group
user_keys_count_max = 100
bearer_length_bytes_max = 16 * 1024  # of the header Authorization
key_set_length_bytes_max = 64 * 1024  # of the keys of an identity provider
key_set_keys_count_max = 100
key_set_seconds_max = 3_600  # then they are read again
key_set_stale_seconds_max = 24 * 3600  # of keys that could not be read again
key_set_retry_seconds = 30  # between two attempts to read them
key_set_waiting_max = 4  # threads of a process that wait while another one reads the first ones
external_logins_max = 4  # of one kind, that one process asks others about at the same time
login_code_length_max = 4 * 1024  # of a code of an identity provider, and of its state
redirect_uri_length_max = 2 * 1024
signed_identity_seconds_max = 15 * 60  # age of a signature that proves an IAM identity
signature_reuse_seconds = 5  # from its first use on
key_name_length_max = 100  # of an access key
user_principals_count_max = 100
principal_id_length_max = 512  # of an external principal
principal_settings_length_bytes_max = 4 * 1024  # as JSON
ring_keys_count_max = 16  # on one keyring
access_pairs_count_max = 50  # that one call asks about
secret_again_seconds = 30  # between two readings of a store's secret that may have been rotated
secret_retry_seconds = 3  # after a reading that failed
access_seconds_max = 4  # age of what a process knows about a caller's rights

# the audit trail
audit_days = 30  # that an embedded store keeps lines, unless there are too many
audit_bytes_max = 1024 * 1024 * 1024  # of the files of changes; the oldest go first
audit_denied_bytes_max = 256 * 1024 * 1024  # of the files of denials
audit_file_bytes_max = 4 * 1024 * 1024
audit_waiting_count_max = 100_000  # lines in memory that a full or slow disk has not taken
audit_scan_count_max = 20_000  # lines that one page looks at
audit_calls_max = 10  # requests to the log that one page sends
audit_delay_milliseconds = 60_000  # from a request to the time that the log gives its line
audit_line_resources_max = 100  # a request with more has several lines
audit_resource_length_max = 2_048  # characters
audit_unknown_lines_max = 100  # a minute, for callers that were not identified
audit_denied_lines_max = 100  # a minute, for the denials of one caller
audit_callers_max = 10_000  # of one minute that a process counts apart
audit_denied_resources_bytes_max = 4 * 1024  # of one denied request; its line names no more
audit_request_resources_bytes_max = 256 * 1024  # of one request that changes something
audit_caller_resources_bytes_max = 4 * 1024 * 1024  # of one caller in a minute; then one a line
audit_seconds_default = 24 * 3600  # the span of a question that names none

# events
event_batch_objects_max = 1_000_000
event_batch_seconds_max = 24 * 60 * 60
event_rules_max = 10_000
event_batches_closing_max = 100
event_seconds = 15 * 24 * 60 * 60  # longer than any notification can be delayed

# hooks
action_file_length_bytes_max = 64 * 1024
action_files_max = 100  # of one commit
action_hooks_max = 100  # of one commit
action_yaml_nodes_max = 10_000  # with every alias counted as what it stands for
action_yaml_depth_max = 20
action_yaml_aliases_max = 100
action_patterns_max = 100  # of one event
hook_seconds_max = 60  # of one hook, with name look-up, connection and answer
hook_answer_length_bytes_max = 64 * 1024
hook_head_length_bytes_max = 16 * 1024
hook_request_length_bytes_max = 1024 * 1024  # handed to the function that sends it
hook_envelope_length_bytes_max = 128 * 1024  # of the answer of this function
hook_threads = 16  # hooks that one process runs at the same time
hook_poll_seconds = 2  # between two requests for the state of a run of Airflow
hook_run_keep_seconds = 30 * 24 * 3600
hook_runs_max = 10_000  # of one repository; the janitor forgets older ones
hook_landing_seconds = 20 * 60  # a change that is not visible for longer will not be: see commits

# tables
table_block_length_bytes_max = 4 * 1024 * 1024
table_block_records_count_max = 128 * 1024
table_block_expanded_bytes_max = 16 * 1024 * 1024  # full keys and values, and 100 bytes a record
# As for a block; of 130,000 ranges whose paths have 1,024 bytes, or 4,900,000 with 100.
table_index_expanded_bytes_max = 28 * 1024 * 1024
table_length_bytes_max = 2 * 1024 * 1024 * 1024
table_records_count_max = 50_000_000
range_size_bytes_default = 20 * 1024 * 1024
range_size_bytes_max = 64 * 1024 * 1024  # a writer keeps the whole range in memory
range_raggedness_max = 50_000_000
range_salt_bytes_max = 64
range_raggedness_default = 2_000
range_raggedness_bulk = 4_000  # chosen by an import of a million records
range_raggedness_chosen_max = 50_000  # by an import, for a repository that it fills
range_raggedness_unrecorded = 50_000  # for a repository whose record has no raggedness

# streams
chunk_length_bytes = 256 * 1024
object_size_bytes_max = 5 * 1024 * 1024 * 1024 * 1024
