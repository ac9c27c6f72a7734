"""Job records, and the record that allows one collection of a repository at a time."""
