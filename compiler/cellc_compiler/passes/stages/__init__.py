"""Training steps in stages: which process computes what of a graph, and when.

A pipeline of stages works on the micro-batches of a batch one after the other. `placing` says
which stage each node belongs to, `schedule` when each stage works on which micro-batch, `ordering`
turns both into one order of all nodes, and `cutting` makes the graph of one stage, in that order,
with `send_to` and `receive_from` where values cross. `micro_batches` says what belongs to which
micro-batch.

After Huang et al., "GPipe" (2019), Narayanan et al., "PipeDream" (2019), and "Efficient Large-Scale
Language Model Training on GPU Clusters Using Megatron-LM" (2021) for interleaved stages.
"""
