"""Tests of graveler/refs/names."""
