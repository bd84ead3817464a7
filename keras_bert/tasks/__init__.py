"""Tasks: models that take text and answer in the user's own words."""
