"""From LangChain's runs to samples: recorded, searched by rules, assembled."""
