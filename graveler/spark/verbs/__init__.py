"""The verbs that users call, one module for each.

land         import rows that name objects, as one commit
imports      writes the ranges of an import
inventory    read an S3 Inventory as the rows of an import
commit       commit very many staged rows
staged_rows  read staged rows of a branch as a DataFrame
pack         rewrite a head with other break parameters
entries      read entries at a ref as a DataFrame
tables       read diffs, history and ranges as DataFrames
read, write  read and write tables of data files
"""
