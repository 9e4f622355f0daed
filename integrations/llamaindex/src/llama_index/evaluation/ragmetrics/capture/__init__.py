"""Capturing: what the framework did (``recorder``, ``run``), by which rules (``rules``), as samples (``samples``)."""
