"""Recorded model exchanges, and a model that answers from them."""
