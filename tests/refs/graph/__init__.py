"""Tests of graveler/refs/graph."""
