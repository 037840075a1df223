"""The dock that shows the attention of the network."""
