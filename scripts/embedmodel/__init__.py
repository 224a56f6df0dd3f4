"""The embedding model in the box: how it is made, and what it is worth."""
