"""Benchmarks, run by hand; they are not part of the tests."""
