"""The rules for everyone, checked from the syntax tree and from the tracked files."""
