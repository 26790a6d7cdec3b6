"""What a network shows: numbers from features, logits and labels."""
