"""What does: one thin file for each outside thing; every decision is made in `modegate.core`."""
