"""Committed state: immutable ranges of records, metaranges over them, and operations on both.

Operations on metaranges:
    reader              reads a keyspace: single keys, scans, cursors; start here
    writer, split       builds a metarange; decides where ranges end
    apply               applies changes to a base
    merge, diff, tally  three-way merge; differences; the changes that a merge would make
    graft               puts ranges from elsewhere into a keyspace whose head may have moved
    verify, dumps       checks in full; tables of a refs dump

The contract, and the range store in memory:
    ranges  immutable ranges and metaranges: the contract
    memory  the reference for it

Ranges as files of RocksDB's table format:
    sstable                       the range store of production
    table, walk, blocks           reads a table; how far a listing reads ahead; blocks
    table_end                     reads footer, properties and index
    seal, splice, whole, columns  writes blocks; takes over blocks of stored tables; records of a
                                  block
    hash                          the id of a table, fast

Where the files lie:
    tiers                  block storage with caches in front of it
    folder, cache, remote  a cache in a folder; in memory; a file that is read by byte ranges
"""
