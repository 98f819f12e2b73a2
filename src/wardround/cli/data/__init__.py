"""Your own files: check, convert and split."""
