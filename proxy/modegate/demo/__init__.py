"""`modegate demo`: a small agent, a scripted model and a proxy tell what a held mode is, offline."""
