"""Objects that arrive in a bucket become staged changes and commits, by the repositories' rules."""
