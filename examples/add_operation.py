"""An operation of one's own: one entry of a table, which training, exports and counting read.

    APPNP3   Z_0 = P,   Z_{k+1} = 0.8 Â Z_k + 0.2 P,   y = Z_3 + bias

In a fork the entry goes into gassip/operations.py; the search then chooses it too.
"""

import numpy as np
from scipy import sparse as sp

import gassip
from gassip.nn.net import Architecture, net_for
from gassip.operations import OPERATIONS, Operation
from gassip.train.trainer import predict, solve

OPERATIONS["APPNP3"] = Operation(norm="gcn", steps=3, scale=0.8, back=0.2, cheaper=("GCNConv",))

graph = gassip.load("debian")
shape = Architecture(ops=("Linear", "APPNP3"), hidden=(16,))
solution = solve(
    graph, lambda: net_for(graph, shape, 0.5), epochs=60, lr=0.01, weight_decay=5e-4, seed=0
)
print(shape, "test accuracy", round(solution.accuracy["test"], 3))

# the same by hand
weights = {name: value.detach().numpy() for name, value in solution.model.named_parameters()}
sender, receiver = graph.edge_index.numpy()
nodes = graph.num_nodes
adjacency = sp.csr_array((np.ones(len(sender)), (receiver, sender)), shape=(nodes, nodes))
adjacency += sp.eye_array(nodes)
root = sp.diags_array(adjacency.sum(1) ** -0.5)
smooth = root @ adjacency @ root  # Â
hidden = graph.to_data().x.numpy() @ weights["layers.0.weight"] + weights["layers.0.bias"]
product = np.maximum(hidden, 0) @ weights["layers.1.weight"]  # P
state = product
for _ in range(3):
    state = 0.8 * (smooth @ state) + 0.2 * product
by_hand = state + weights["layers.1.bias"]
difference = np.abs(by_hand - predict(solution.model, solution.graph).numpy()).max()
print("largest difference to the same by hand", difference)
assert difference < 1e-4
