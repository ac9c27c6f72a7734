"""Data files of tables.

formats              which types each format can hold, and how files are written and read; start
                     here
parquet, texts       Parquet; CSV and JSON
schemas              the schema of a table, from all of its files; whether rows fit it
folders, partitions  partition columns in names of folders; their types and values
store                one task of writing a table
"""
