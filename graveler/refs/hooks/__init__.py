"""Records of hooks.

runs  the runs of actions
"""
