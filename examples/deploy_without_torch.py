"""Labels from a run's folder with numpy and scipy alone: torch is never imported.

python examples/quickstart.py && python examples/deploy_without_torch.py runs/quickstart
"""

import sys

import numpy as np

from gassip.runtime import load

model = load(sys.argv[1])
labels = model.predict()
print("node 0 is", model.class_names[labels[0]], "of", len(labels), "nodes")

probability = model.predict_proba(nodes=[17])[0]  # reads the neighbourhood of node 17 only
for k in probability.argsort()[:-4:-1]:
    print(f"node 17: {model.class_names[k]} {probability[k]:.1%}")

# a node that was not there: a row of features, and edges to the nodes 0 and 17
row = np.zeros((1, model.features), dtype=np.float32)
row[0, :5] = 1 / 5
new = len(labels)
larger = model.extend(row, np.array([[0, 17, new, new], [new, new, 0, 17]]))
print("a new node is", model.class_names[larger.predict(nodes=[new])[0]])
assert "torch" not in sys.modules
