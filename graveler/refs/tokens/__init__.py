"""Records around staging: clean-up records of tokens, and upload addresses."""
