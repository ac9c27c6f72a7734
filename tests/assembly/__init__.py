"""Putting the product together."""
