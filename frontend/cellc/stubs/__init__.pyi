"""Stubs of what is made at run time; see `docs/make_stubs.py`."""
