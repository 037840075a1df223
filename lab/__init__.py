"""The laboratory: what made and judged the bundled weights. It is no part of the product."""
