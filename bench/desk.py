# A desk of an online shop: it looks at its open cases once, then waits to be called.
from kernel import sleep, log
from tools.shop import find_orders, get_order, get_customer, search_customers, list_refunds
from tools.shop import get_invoice, track_parcel, list_warehouses, get_stock, search_articles
from tools.shop import get_article, get_price, list_tickets, get_ticket, list_messages
from tools.shop import get_policy, convert_currency, check_fraud, list_campaigns, sales_report

LOOKUPS = {
    "order": get_order,
    "customer": get_customer,
    "article": get_article,
    "ticket": get_ticket,
    "parcel": track_parcel,
    "policy": get_policy,
}
SEARCHES = [search_customers, search_articles, list_warehouses, list_campaigns]
CHECKS = [list_refunds, get_invoice, check_fraud, get_stock, get_price, convert_currency]


class Case:
    def __init__(self, number, customer, words):
        self.number = number
        self.customer = customer
        self.words = words
        self.steps = []

    def note(self, step):
        self.steps.append(step)

    def urgent(self):
        return "broken" in self.words or "refund" in self.words


def plan(case):
    case.note("look up customer " + str(case.customer))
    if case.urgent():
        case.note("check refunds first")
    case.note("answer ticket " + str(case.number))
    return len(case.steps)


def summary(cases):
    lines = []
    for case in cases:
        mark = "!" if case.urgent() else " "
        lines.append(mark + " case " + str(case.number) + ": " + "; ".join(case.steps))
    return "\n".join(lines)


cases = [
    Case(101, 7, ["parcel", "late"]),
    Case(102, 12, ["broken", "lamp"]),
    Case(103, 7, ["refund", "order", "twice"]),
]
planned = sum([plan(case) for case in cases])
report = summary(cases)
try:
    sleep(10 * 365 * 24 * 3600)
except KeyboardInterrupt:
    print("desk closed:", len(cases), "cases")
