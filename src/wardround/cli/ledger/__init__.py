"""What crossed the wire."""
