"""Verbs that move the head of a branch, and that compare commits; read commit.py first."""
