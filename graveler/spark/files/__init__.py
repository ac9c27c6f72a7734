"""Data files of tables: formats, folders with partition values, Parquet and text."""
