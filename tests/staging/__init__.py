"""Tests of graveler/staging."""
