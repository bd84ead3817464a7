"""From logits to entities and answers; and back, from labelled texts to what is learned."""
