"""The ACP endpoint of modegate: where people flip modes and approve plans."""
