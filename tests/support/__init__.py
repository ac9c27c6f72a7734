"""Contract suites, oracles and faults for tests.

kv_suite, kv_oracle                       the contract of key-value stores as tests; a sorted
                                          dictionary that is right
block_suite, block_clauses, block_oracle  the same for object storage
faults, passing                           ports that fail like remote services
range_suite                               the contract of range storage as tests
interposer                                another client acts between two requests of one operation
clockwork                                 time and ids that repeat
hostile_names                             names that try to escape from a folder, or that sort
                                          unexpectedly
"""
