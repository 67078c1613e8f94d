"""Charts as SVG, without torch and without a plotting library."""
