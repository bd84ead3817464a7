"""From logits to answers: entities and answer spans."""
