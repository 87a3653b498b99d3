"""Predicts a training step on many ranks from the step of one: `cellc plan`.

`links` says what collectives cost, `workload` what a step is made of, `splits` what of it tensor
parallelism cuts, `meshes` puts them together and searches, `view` shows it, `measuring` measures
the links of this machine.
"""
