"""Verbs that write and read objects on a branch or at a ref; read write.py first."""
