"""The ACP endpoint of modegate: where people flip modes and approve plans.

`endpoint.build` makes the endpoint of a proxy. A message goes from a transport (`websocket`, `streamable`)
through `protocol` and `dispatch`, which are pure, to `handlers`; what the log brings goes from `fanout`
through `attachment` and `render`, which are pure, to every connection that follows the session. `stdio` and
`relay` are the same endpoint for editors that only start processes; nothing is imported here, so that they
start fast.
"""
