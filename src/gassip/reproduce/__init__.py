"""The paper's tables and figures: what each needs, what it prints, and how records fill it."""
