"""Objects on a branch or at a ref.

objects         upload, stat, read, list, delete, copy; start here
stage           stages one change: the writer's side of the protocol
addresses       upload addresses: a client writes the bytes, then links them
multipart       uploads in parts by signed URLs
intents         writes that several processes may make: made once
link            stages an object whose bytes lie at an address that the caller names
reachable       checks an address each time a read resolves it
metadata_files  range and metarange files by their ids
"""
