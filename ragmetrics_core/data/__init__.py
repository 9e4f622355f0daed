"""The data that flows through ragmetrics: samples, questions and replies, evidence, results, errors."""
