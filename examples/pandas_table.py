"""Two pandas tables: customers with columns of every kind, and who recommended whom.

python examples/pandas_table.py        (pip install 'gassip[tables]')
"""

import numpy as np
import pandas as pd

import gassip

rng = np.random.default_rng(0)
count = 240
stays = rng.random(count) < 0.5
nodes = pd.DataFrame(
    {
        "id": [f"customer {k}" for k in range(count)],
        "label": np.where(stays, "stays", "leaves"),
        "age": 30 + 10 * stays + rng.normal(0, 12, count),
        "town": np.where(rng.random(count) < 0.6, np.where(stays, "Ulm", "Ghent"), "Porto"),
        "since": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, count), "D"),
    }
)
nodes.loc[rng.random(count) < 0.1, "age"] = np.nan
nodes.loc[200:, "label"] = None  # forty customers whose label nobody knows yet
alike = rng.integers(0, count, (4 * count, 2))
alike = alike[(stays[alike[:, 0]] == stays[alike[:, 1]]) | (rng.random(len(alike)) < 0.3)]
ids = nodes["id"].to_numpy()
edges = pd.DataFrame({"source": ids[alike[:, 0]], "target": ids[alike[:, 1]]})

graph = gassip.from_frames(nodes, edges)  # missing cells are filled, numbers scaled, texts encoded
model = gassip.GassipClassifier(preset="fast").fit(graph)
names = model.predict()  # "stays" or "leaves"
sure = model.predict_proba().max(1).round(3)
print(nodes[["id"]].assign(label=names, probability=sure)[200:].head())
print("test accuracy", round(model.score(graph), 3))
print("right of the forty:", int(((names == "stays") == stays)[200:].sum()))
