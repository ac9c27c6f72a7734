"""Credentials, sessions, and who is let in."""
