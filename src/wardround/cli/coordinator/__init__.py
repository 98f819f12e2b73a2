"""The consortium's coordinator."""
