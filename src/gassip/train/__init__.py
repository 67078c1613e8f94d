"""A plan in, a trained net out."""
