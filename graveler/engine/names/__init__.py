"""Names of commits: branches, which move, and tags, which never move; what a ref names."""
