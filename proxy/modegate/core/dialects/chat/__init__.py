"""OpenAI chat completions, as the API reference of 2026 describes them and as servers vary them."""
