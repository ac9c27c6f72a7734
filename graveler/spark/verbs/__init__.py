"""What users call, and one module for each verb.

imports      rows that say where objects lie become a commit
inventory    an S3 Inventory as the rows of an import
commit       commits very many staged rows
staged_rows  staged rows of a branch as a DataFrame
pack         rewrites a head with other break parameters
entries      entries at a ref as a DataFrame
tables       diffs, history and ranges as DataFrames
read, write  tables of data files
"""
