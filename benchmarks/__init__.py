"""Measurements, run by hand: never part of the tests."""
