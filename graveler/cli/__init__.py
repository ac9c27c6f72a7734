"""The commands behind the console script `graveler`.

Layer 4: may import everything below; nothing imports it.
"""
