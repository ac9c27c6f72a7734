"""Graveler: git for data lakes.

Importing the package loads nothing but this version; every dependency is
loaded by the module that owns it. Anyone may import it.
"""

__version__ = "0.1.0.dev0"
