"""A person who administers, submits studies or watches, from a machine of their own."""
