"""A consortium of hospitals."""
