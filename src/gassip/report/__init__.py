"""One page about a run, or about several: report.html, without torch."""
