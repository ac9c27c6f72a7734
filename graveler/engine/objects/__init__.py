"""Objects: the verbs that write and read objects on a branch or at a ref.

read                         stat, read and list objects at a ref; start here
write, write_many            upload and delete objects on a branch; many uploads at once
copies                       copy objects; change what is said about them
stage                        stages one change: the writer's side of the protocol
intents                      writes that several processes may attempt and that take effect once
link, reachable              stages an object that lies in storage; checks its address at every read
addresses                    upload addresses: a client writes the bytes, then links them to a path
multipart                    uploads in parts, by signed URLs
uploads, upload_pages        uploads in parts that go through the service; pages of those in
                             progress
completions, part_checksums  the end of such an upload; checksums of its parts
metadata_files               range and metarange files by their ids
symlinks                     for each folder, the addresses of its objects
"""
