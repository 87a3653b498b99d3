"""The layers of `mint.nn`, by subject."""
