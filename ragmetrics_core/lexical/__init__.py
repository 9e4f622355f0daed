"""The embedded judge: word overlap, no model, no network."""
