"""R copies of a net trained at once; the loop is `many.py`."""

from gassip.train.batched.many import batchable as batchable
from gassip.train.batched.many import copies_at_once as copies_at_once
from gassip.train.batched.many import retrain_many as retrain_many
from gassip.train.batched.many import solve_many as solve_many
