"""Records that belong to staging: clean-up records of tokens, and upload addresses."""
