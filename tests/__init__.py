"""The tests of Graveler; the folders mirror the package."""
