"""The best net by a deadline, and what happens meanwhile.

On the command line: gassip search --time-limit 4s. More time never gives a lower validation score.
"""

import time

import gassip
from gassip.train.events import Event


def tell(event: Event) -> None:
    """Every step of a search is an event (gassip.train.events): progress bars, logs, stopping."""
    if event["phase"] == "stage" and "best" in event:
        print(f"{event['elapsed']:.1f} s: best {event['best']:.3f}, {event['left']:.1f} s left")


graph = gassip.load("debian")
began = time.monotonic()
model = gassip.GassipClassifier(time_limit="4s", callback=tell).fit(graph)
print("took", round(time.monotonic() - began, 1), "s; test accuracy", round(model.score(graph), 3))
for row in model.leaderboard()[:3]:
    print(row["architecture"], row["val_score"], row["weights"])
