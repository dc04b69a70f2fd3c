"""SWE-bench rows whose tests run with Django's own test runner."""
