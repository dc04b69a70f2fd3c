"""The stock as a JSON file."""

import json
from pathlib import Path

from shelf.errors import ShelfError
from shelf.model import Item, Stock

VERSION = 1


def save(stock, path):
    document = {
        "version": VERSION,
        "takings": stock.takings,
        "items": [{"name": item.name, "price": item.price, "count": item.count} for item in stock.items.values()],
    }
    Path(path).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load(path):
    """The stock of a file; an empty one when there is no file yet."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Stock()
    except ValueError:
        raise ShelfError(f"{path} is not a stock file") from None
    if document.get("version") != VERSION:
        raise ShelfError(f"{path} has version {document.get('version')}, expected {VERSION}")
    items = [Item(raw["name"], raw["price"], raw["count"]) for raw in document["items"]]
    return Stock({item.name: item for item in items}, document["takings"])
