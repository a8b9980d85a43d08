"""The official SDKs' clients, for proxies on loopback.

Neither retries: what a proxy refuses is to be seen. Neither loads the CA bundle, which takes 80 ms and is of
use for TLS alone.
"""

from __future__ import annotations

import anthropic
import openai


def openai_client(base: str, *, key: str = "none") -> openai.AsyncOpenAI:
    """Return a client of the OpenAI SDK for a base URL."""
    http = openai.DefaultAsyncHttpxClient(verify=False)
    return openai.AsyncOpenAI(base_url=base, api_key=key, max_retries=0, http_client=http)


def anthropic_client(base: str, *, key: str = "none") -> anthropic.AsyncAnthropic:
    """Return a client of the Anthropic SDK for a base URL, which ends before `/v1`."""
    http = anthropic.DefaultAsyncHttpxClient(verify=False)
    return anthropic.AsyncAnthropic(base_url=base, api_key=key, max_retries=0, http_client=http)
