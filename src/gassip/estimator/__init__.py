"""GassipClassifier: the method with scikit-learn's habits.

classifier   the class: fit, predict, score, leaderboard, fit_summary, save, load
tasks        what `fit` was given, as one graph with labels
truth        the labels and nodes that a score is taken over
new_graphs   what there is to warn of on a graph that is not the training graph
"""

from gassip.estimator.classifier import GassipClassifier as GassipClassifier
