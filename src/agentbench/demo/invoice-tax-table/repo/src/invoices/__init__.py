"""Quotes and bills from line items. All amounts are whole cents."""

from invoices.bill import make_bill
from invoices.lines import InvoiceError, Line, read_lines
from invoices.quote import make_quote

__all__ = ["InvoiceError", "Line", "make_bill", "make_quote", "read_lines"]
