"""The commands of the console script `graveler`.

main.py parses the arguments and calls one command; start there.  Layer 4: may import every lower
layer; no other package imports it.
"""
