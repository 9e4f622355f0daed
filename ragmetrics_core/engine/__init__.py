"""The engine: carries out metrics' plans with judges, many at a time.

It does so in sync, async and streaming form.
"""
