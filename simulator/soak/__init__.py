"""The soak: everything at once on all cores, for hours: `python -m simulator.soak.run`."""
