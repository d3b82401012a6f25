"""Tables of models in a store: their registry, and creating, comparing, altering and dropping them."""
