"""What Graveler does beyond lakeFS, from Python."""
