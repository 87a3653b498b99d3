"""Python in graphs: what only Python can do with what only the run knows.

An array of a tensor's elements, what numpy or a third-party function makes of it, a string to be
measured: in graph mode these are objects of the run (`RunObject`). Whatever is done to one becomes
a *piece*: a call of Python at its place in the graph (`emit.py`). `operations.py` says which syntax
makes pieces; `first_run.py` runs them in the first call, which tells what they give.
"""
