"""The rest of a training run, with bands: what is read of it, the learning rate it will have, and what follows."""
