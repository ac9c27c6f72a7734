"""The key-value port: one contract, a reference implementation in memory, drivers, wrappers.

store                               the contract (clauses K1 to K11); start here
memory                              the reference driver; every other driver must behave like it
replace                             a compare-and-swap loop: read, change, write if still unchanged
retry                               a wrapper that retries, and finds out whether a write with a
                                    lost answer was applied
counter                             a wrapper that counts requests
rocksdb, database                   the embedded store; one RocksDB database
handle, files                       opens RocksDB; checks its files before
group_commit, wait, folder, layout  shared syncs; threads that must not wait; one owner; bytes of
                                    rows
dynamodb, dynamodb_items            the DynamoDB driver; rows and conditions as items
dynamodb_table                      makes its table, for tests
"""
