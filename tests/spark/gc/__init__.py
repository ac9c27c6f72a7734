"""Tests of graveler/spark/gc."""
