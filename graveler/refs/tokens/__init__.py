"""Records that belong to staging.

cleanups                    clean-up records of tokens
uploads                     upload addresses
multiparts, part_checksums  uploads in parts; checksums of their parts
"""
