"""The commit graph: commit records, ancestors, merge bases, the log, the table."""
