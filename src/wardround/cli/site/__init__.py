"""A hospital's own commands."""
