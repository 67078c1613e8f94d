"""The paper: one file per section."""
