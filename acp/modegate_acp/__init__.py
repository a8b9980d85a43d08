"""The ACP endpoint of modegate: where people flip modes and approve plans.

`endpoint.build` makes the endpoint of a proxy. What a client sends goes from `transport` through `messages`
to `methods`. What the log brings goes from `following.session_feed` to every connection that follows the
session, as messages that `render` makes. `stdio` is the same endpoint for editors that only start processes.
Nothing is imported here: `modegate acp` starts fast.
"""
