"""Published methods to compare with, one file each; gassip.methods lists them by name."""
