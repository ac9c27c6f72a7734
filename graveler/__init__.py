"""Graveler: git for data lakes.

Importing the package loads only this version.  Each dependency is loaded by the module that owns
it.  Every module may import this.
"""

__version__ = "0.1.0.dev0"
