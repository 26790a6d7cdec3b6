"""What theory says: simulate and solve phenomenological models of learning."""
