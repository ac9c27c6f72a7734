"""Event intake: objects that arrive in a bucket become staged changes and commits, by rules."""
