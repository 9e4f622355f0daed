"""The engine: carries out metrics' plans with judges, many at a time, in sync, async and streaming form."""
