"""Taking in what notifications tell of a bucket."""
