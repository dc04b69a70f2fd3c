"""Owns the registration: everything frozen before the first attempt, and comparing a design with it."""
