from tillroll.invoice import render_invoice
from tillroll.receipt import render_receipt
from tillroll.report import render_report

__all__ = ["render_invoice", "render_receipt", "render_report"]
