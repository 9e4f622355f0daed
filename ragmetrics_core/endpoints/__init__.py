"""Chat models and everything around a call to one: replies kept, limits, retries, errors of clients."""
