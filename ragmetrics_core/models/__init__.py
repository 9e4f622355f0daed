"""Chat models and everything around a call to one.

That is replies that are kept, limits, retries, and errors of clients.
"""
