"""The ACP endpoint of modegate: where people flip modes and approve plans.

`build` makes the endpoint of a proxy. A message goes from a transport (`websocket`, `streamable`) through
`protocol` and `dispatch`, which are pure, to `handlers`; what the log brings goes from `fanout` through
`attachment` and `render`, which are pure, to every connection that follows the session.
"""

from modegate_acp.endpoint import build

__all__ = ["build"]
