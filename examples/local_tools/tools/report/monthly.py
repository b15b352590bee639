"""A local tool: it runs in the same sandbox as the program that imports it, so it may return any object."""

from dataclasses import dataclass


@dataclass
class Month:
    name: str
    orders: int
    revenue: float

    def average(self):
        return self.revenue / self.orders


def months(rows):
    """Group sales (dicts with date, quantity and unit_price) by month, oldest first."""
    orders, revenue = {}, {}
    for row in rows:
        month = row["date"][:7]
        orders[month] = orders.get(month, 0) + 1
        revenue[month] = revenue.get(month, 0.0) + int(row["quantity"]) * float(row["unit_price"])
    return [Month(m, orders[m], revenue[m]) for m in sorted(orders)]


def bar(value, largest, width=30):
    """A bar of text whose length is value's share of largest."""
    return "#" * round(width * value / largest)
