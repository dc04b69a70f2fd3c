"""The three API dialects (chat, responses, messages) and the translations between them. Pure functions of JSON.

Owns how requests, responses and errors of each dialect are read and written. Must not send, store or count anything.
"""
