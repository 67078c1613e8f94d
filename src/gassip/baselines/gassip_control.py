"""Controls of GASSIP's edge mask: what the same search found, trained on other edges.

    all      every edge of the graph
    random   as many edges as the mask keeps, another draw for each search; a node's last edge stays

The search, the architecture and the weight mask are those of the method `gassip` with equal
seeds, so that only the edges differ. `gassip run gassip gassip-all-edges gassip-random-edges`
searches once for all three.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from gassip.baselines.gassip import GassipMethod
from gassip.graph.graph import Graph
from gassip.graph.undirected import keep_highest
from gassip.train.context import RunContext
from gassip.train.plan import Plan


@dataclass(frozen=True, kw_only=True)
class GassipControl(GassipMethod):
    """`gassip` on other edges than the mask keeps."""

    edges: Literal["all", "random"] = "all"

    @classmethod
    def for_graph(  # type: ignore[override]
        cls, graph: Graph, edges: Literal["all", "random"] = "all"
    ) -> "GassipControl":
        settings = GassipMethod.for_graph(graph, "paper").settings
        return cls(settings=settings, edges=edges)

    def search(self, graph: Graph, run: RunContext) -> Plan:
        return self.after(super().search(graph, run), graph, run.seed)

    def resume(self, folder: Path, graph: Graph, run: RunContext) -> Plan:
        return self.after(super().resume(folder, graph, run), graph, run.seed)

    def after(self, plan: Plan, graph: Graph, seed: int) -> Plan:
        """The plan with the control's edges; each seed draws another random cut."""
        keep = torch.ones_like(plan.edge_keep)
        if self.edges == "random":
            whole, share = plan.on(graph, all_edges=True), float(plan.edge_keep.float().mean())
            noise = torch.rand(whole.num_edges, generator=torch.Generator().manual_seed(seed))
            keep = keep_highest(whole, noise.to(whole.device), share)
        return replace(plan, edge_keep=keep, soft_edges=False)
