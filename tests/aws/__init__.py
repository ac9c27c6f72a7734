"""The drivers of AWS against engines on this machine."""
