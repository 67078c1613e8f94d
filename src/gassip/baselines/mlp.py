"""MLP: h' = h W, the graph left out; the control for what edges bring. Rumelhart, Hinton and
Williams, Learning Representations by Back-propagating Errors, Nature 1986."""

from dataclasses import dataclass
from typing import ClassVar

from gassip.baselines._shared.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Mlp(Stack):
    """Two dense layers."""

    op: ClassVar[str] = "Linear"
