"""What goes in: graphs, checked and cleaned, and where they come from."""
