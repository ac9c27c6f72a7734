"""Names: repositories, branches and tags, and the expressions that refer to them."""
