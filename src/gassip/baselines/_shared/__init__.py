"""What several baselines use: base classes of settings, nets, pruning, sampling."""
