"""A stock list for a small shop."""

from shelf.errors import ShelfError
from shelf.model import Item, Stock
from shelf.store import load, save

__all__ = ["Item", "ShelfError", "Stock", "load", "save"]
