"""Trained nets of rows on disk as they come, so that a killed search goes on to the same bits.

    <out>.partial/net-*.safetensors    weights and biases of the folded net, its validation logits

The files are those of any search's checkpoint (runs/checkpoint.py), with the same identity check.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from gassip.large.rows.nets import Shape
from gassip.large.rows.training import Trained
from gassip.nn.net import Architecture, Net
from gassip.runs.checkpoint import NETS, check_identity, read, slug, write
from gassip.train.plan import Row


@dataclass(frozen=True)
class KeptNets:
    """A folder of trained nets; one that a search of another identity wrote is refused."""

    folder: Path
    identity: dict[str, object]

    def _path(self, name: str) -> Path:
        return self.folder / NETS.format(slug(name))

    def recall(self, name: str, asked: str) -> Trained | None:
        """None: none was trained, or as something else asked."""
        path = self._path(name)
        if not path.exists():
            return None
        tensors, (row,), stored = read(path)
        check_identity(path, stored, self.identity)
        if row.get("asked") != asked:
            return None
        shape = json.loads(str(row["shape"]))
        return Trained(
            net=net_of(json.loads(str(row["net"])), tensors),
            shape=Shape(**shape | {"hops": tuple(shape["hops"])}),
            value=float(row["value"]),
            logits=tensors["logits"],
            epoch=int(row["epoch"]),
            seconds=float(row["seconds"]),
        )

    def remember(self, name: str, asked: str, made: Trained) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        net = made.net.architecture
        about = {"ops": net.ops, "hidden": net.hidden, "dropout": made.net.dropout}
        row: Row = {
            "name": name,
            "asked": asked,
            "net": json.dumps(about),
            "shape": json.dumps(asdict(made.shape)),
            "value": made.value,
            "epoch": made.epoch,
            "seconds": made.seconds,
        }
        write(self._path(name), layers(made.net) | {"logits": made.logits}, [row], self.identity)


def layers(net: Net) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for at, layer in enumerate(net.layers):
        out |= {f"{at}.weight": layer.weight, f"{at}.bias": layer.bias}
    return out


@torch.no_grad()
def net_of(about: dict[str, list[str] | list[int] | float], tensors: dict[str, Tensor]) -> Net:
    """The folded net again; weights that are 0 were pruned."""
    ops, hidden = about["ops"], about["hidden"]
    assert isinstance(ops, list) and isinstance(hidden, list)
    shape = Architecture(ops=tuple(map(str, ops)), hidden=tuple(map(int, hidden)))
    classes = tensors[f"{len(ops) - 1}.bias"].numel()
    dropout = float(str(about["dropout"]))
    net = Net(tensors["0.weight"].shape[0], classes, shape, dropout)
    for at, layer in enumerate(net.layers):
        layer.weight.copy_(tensors[f"{at}.weight"])
        layer.bias.copy_(tensors[f"{at}.bias"])
    net.prune([layer.weight != 0 for layer in net.layers])
    return net.eval()
