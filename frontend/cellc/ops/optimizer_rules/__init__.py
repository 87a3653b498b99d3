"""Pure step rules of optimizers: from a weight, its gradient and its state to their new values.

A rule assigns nothing and knows no learning-rate schedule, group or data type. The optimizers of
`nn`, `experimental.optim` and `mint.optim` and the primitives of `ops` call it with values of one
type and store its results. A rule takes the rate and the constants as numbers or as scalar tensors.

An average with decay b comes as the pair (b, 1 - b): callers differ in how they round 1 - b.
"""
