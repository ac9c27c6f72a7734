"""Objects: the verbs that write and read objects on a branch or at a ref.

read            stat, read and list objects at a ref; start here
write           upload and delete objects on a branch
copies          copy objects; change what is said about them
stage           stages one change: the writer's side of the protocol
addresses       upload addresses: a client writes the bytes, then links them to a path
multipart       uploads in parts, by signed URLs
uploads         uploads in parts that go through the service
upload_pages    pages of those in progress
intents         writes that several processes may attempt and that take effect once
link            stages an object whose bytes are at an address that the caller names
reachable       checks an address whenever a read resolves it
metadata_files  range and metarange files by their ids
"""
