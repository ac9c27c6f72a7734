"""Names of commits: branches, which move, and tags, which do not."""
