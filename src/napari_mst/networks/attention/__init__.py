"""Attention mechanisms, one file each.

Each has `forward` and `weights(x, query)`, which returns the keys of a query, their weights and
their places (`networks.attention_spec.QueryWeights`).
"""
