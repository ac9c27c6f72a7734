"""Repositories: create, find, delete, verify and purge them."""
