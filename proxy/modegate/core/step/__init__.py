"""One step: a model request of the agent, and all that happens until its answer is complete."""
