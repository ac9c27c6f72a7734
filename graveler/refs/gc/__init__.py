"""Records of garbage collection.

runs         runs of collections
marks        condemned commits and metaranges
unreachable  commits that no ref leads to, and since when
retention    retention rules
sizes        the size of a repository at its last collection
"""
