"""Who answers a request: HTTP upstreams, providers by litellm, and the choice between them."""
