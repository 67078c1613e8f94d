"""A net as an ONNX graph, written node by node; two ways to add up messages.

    fixed     the graph's edges are part of the file, x [N, D] is the input (fixed.py)
    dynamic   features, edges and weights are inputs of any size (dynamic.py)

onnxruntime's ScatterND with addition races between threads on a CPU, and that is what exporters
make of an index_add; neither way uses it. Operations are those of operations.py; the shares of
attention under a mask are softmax(logit + log m).
"""

from gassip.deploy.onnx.dynamic import dynamic as dynamic
from gassip.deploy.onnx.fixed import fixed as fixed
