"""Names of commits.

branches  names that move; start here
tags      names that never move
refs      what a ref names: its type, its commit, whether anything is uncommitted
"""
