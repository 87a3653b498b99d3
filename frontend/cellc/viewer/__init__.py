"""One page to look at: a network's graph, what the passes did to it, its code and its memory, as
one HTML file that needs neither a server nor the network.

`report.py` gathers what is shown, `page.py` writes it; what the browser runs is in `page/`.
"""
