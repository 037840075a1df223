"""Attention mechanisms, one file each.

Each has `forward` and `weights(x, query)`: which keys the query takes its values from, and where
they lie (`networks.attention_spec.QueryWeights`).
"""
