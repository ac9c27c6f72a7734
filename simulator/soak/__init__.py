"""The soak: all tracks at once on all cores: `python -m simulator.soak.run --minutes 40`."""
