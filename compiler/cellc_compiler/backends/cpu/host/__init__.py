"""The host side of an image: `cellc_main`, entries, call sites, the thread pool."""
