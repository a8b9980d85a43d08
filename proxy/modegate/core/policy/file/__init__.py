"""policies.yaml as text: read into a policy, or into every problem with its line; its schema for editors."""
