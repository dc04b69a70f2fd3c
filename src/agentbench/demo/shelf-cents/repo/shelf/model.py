"""Items and the stock they form."""

from dataclasses import dataclass, field

from shelf.errors import ShelfError


@dataclass
class Item:
    name: str
    price: float
    count: int = 0

    def value(self):
        """What all pieces of it are worth."""
        return self.price * self.count


@dataclass
class Stock:
    items: dict = field(default_factory=dict)
    takings: float = 0.0

    def add(self, name, price, count):
        """More pieces of an item. A new price replaces the old one."""
        if count < 1:
            raise ShelfError("add at least one piece")
        item = self.items.setdefault(name, Item(name, price))
        item.price = price
        item.count += count
        return item

    def sell(self, name, count, discount_percent=0):
        """Take pieces out and money in; the amount taken."""
        item = self.items.get(name)
        if item is None:
            raise ShelfError(f"no such item: {name}")
        if not 0 < count <= item.count:
            raise ShelfError(f"cannot sell {count} of {item.count} {name}")
        if not 0 <= discount_percent <= 100:
            raise ShelfError("a discount is between 0 and 100 percent")
        amount = item.price * count
        amount = amount - amount * discount_percent / 100
        item.count -= count
        self.takings += amount
        return amount

    def value(self):
        """What the whole stock is worth."""
        return sum(item.value() for item in self.items.values())
