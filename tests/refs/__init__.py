"""Tests of graveler/refs."""
