"""Records that belong to staging: clean-up records of tokens, upload addresses, and uploads in
parts."""
