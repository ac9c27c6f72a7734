"""The functions' own modules, without AWS."""
