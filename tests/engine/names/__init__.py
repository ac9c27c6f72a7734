"""Tests of graveler/engine/names."""
