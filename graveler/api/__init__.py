"""The lakeFS API and our own operations, a module a resource.

A new endpoint is one function with `@operation` (operation.py) in the module of its resource.
"""
