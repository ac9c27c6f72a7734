"""Job records, and the turn to collect a repository."""
