"""The tensors of a run as torch has them, each of the shape and type that meta.json asks for."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gassip.errors import GassipError
from gassip.graph.parts import SPLITS
from gassip.nn.net import Architecture, Net
from gassip.operations import OPERATIONS
from gassip.runs.checked_meta import Meta
from gassip.runs.format import (
    label_weight,
    read_tensors,
)


def torch_tensors(folder: Path, name: str, meta: Meta) -> dict[str, Tensor]:
    """A safetensors file of the run as torch has it."""
    arrays = read_tensors(folder, name, meta)
    return {key: torch.from_numpy(value.copy()) for key, value in arrays.items()}


def trained_net(path: Path, meta: Meta, state: dict[str, Tensor]) -> Net:
    """Shapes first, on a device without memory, so that a hostile size costs nothing."""
    net = _empty_net(
        path, meta, meta["net"] | {"ops": meta["architecture"]}, state.get("feature_index")
    )
    for at, layer in enumerate(net.layers):
        if f"layers.{at}.weight.bits" in state:
            net.register_buffer(
                f"weight_keep_{at}", torch.empty_like(layer.weight, dtype=torch.bool)
            )
            state = _unmasked(path, state, at, layer.weight.shape)
    _check_tensors(
        path, state, {name: (value.shape, value.dtype) for name, value in net.state_dict().items()}
    )
    net.load_state_dict(state, assign=True)
    net.label_weight = label_weight(meta)
    return net.eval()


def _unmasked(
    path: Path, state: dict[str, Tensor], at: int, shape: torch.Size
) -> dict[str, Tensor]:
    """The state with the matrix of layer `at` whole, its removed weights 0, and `weight_keep`
    beside it."""
    name, count = f"layers.{at}.weight", shape.numel()
    parts = {part: state.get(f"{name}{part}", torch.empty(0)) for part in ("", ".bits", ".shape")}
    bits = parts[".bits"]
    plain = (
        bits.dtype == torch.uint8
        and bits.shape == ((count + 7) // 8,)
        and parts[".shape"].tolist() == list(shape)
    )
    keep = (
        torch.from_numpy(np.unpackbits(bits.numpy(), count=count)).bool().view(shape)
        if plain
        else None
    )
    if keep is None or parts[""].shape != (int(keep.sum()),) or parts[""].dtype != torch.float32:
        raise GassipError(
            f"{path} does not fit meta.json: {name} is not of shape {list(shape)} under its mask"
        )
    whole = torch.zeros(shape)
    whole[keep] = parts[""]
    rest = {key: value for key, value in state.items() if not key.startswith(name)}
    return rest | {name: whole, f"weight_keep_{at}": keep}


def found_net(path: Path, meta: Meta, found: dict[str, Tensor]) -> Net:
    """The net that was found, without its weights."""
    return _empty_net(path, meta, meta["found"], found.get("feature_index"))


def _empty_net(path: Path, meta: Meta, shape: Meta, feature_index: Tensor | None) -> Net:
    ops, where = shape["ops"], path.parent / "meta.json"
    if not all(name in list(OPERATIONS) for name in ops) or not ops:
        raise GassipError(f"{where}: architecture names an operation there is not")
    sizes = [*shape["hidden"], *shape["heads"]]
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        raise GassipError(f"{where}: hidden and heads must be lists of whole numbers")
    try:
        architecture = Architecture(
            ops=tuple(ops),
            hidden=tuple(shape["hidden"]),
            heads=tuple(shape["heads"]),
            batch_norm=shape["batch_norm"],
            layer_norm=shape.get("layer_norm", False),
            standardised=shape.get("standardised") is True,
        )
    except GassipError as error:
        raise GassipError(f"{where}: sizes and norms do not fit each other ({error})") from error
    if feature_index is not None:
        _check_index(path, meta["features"], feature_index)
    with torch.device("meta"):
        return Net(
            meta["features"],
            len(meta["class_names"]),
            architecture,
            meta["net"]["dropout"],
            feature_index,
        )


def _check_index(path: Path, features: int, index: Tensor) -> None:
    """Ascending columns of x."""
    plain = index.dtype == torch.int64 and index.ndim == 1 and index.numel() > 0
    if (
        not plain
        or bool((index.diff() <= 0).any())
        or int(index[0]) < 0
        or int(index[-1]) >= features
    ):
        raise GassipError(
            f"{path} does not fit meta.json: feature_index must name some of {features} columns "
            f"in order"
        )


def _check_tensors(
    path: Path,
    tensors: Mapping[str, Tensor],
    expected: Mapping[str, tuple[Sequence[int], torch.dtype]],
) -> None:
    """Exactly these tensors, of these shapes and types."""
    if odd := sorted(tensors.keys() ^ expected.keys()):
        raise GassipError(f"{path} does not fit meta.json: {odd[0]} is missing or too much")
    for name, (shape, dtype) in expected.items():
        value = tensors[name]
        if tuple(value.shape) != tuple(shape) or value.dtype != dtype:
            was = f"{list(value.shape)} {value.dtype}"
            raise GassipError(
                f"{path} does not fit meta.json: {name} is {was}, not {list(shape)} {dtype}"
            )


def check_graph(path: Path, meta: Meta, graph: dict[str, Tensor]) -> None:
    nodes, total, kept = meta["nodes"], meta["edges_total"], meta["edges_kept"]
    expected: dict[str, tuple[Sequence[int], torch.dtype]] = {
        "edge_index": ((2, kept), torch.int64),
        "edge_keep": ((total,), torch.bool),
        "edge_mask": ((total,), torch.float32),
    }
    expected |= {f"{split}_mask": ((nodes,), torch.bool) for split in SPLITS}
    if "edge_weight" in graph:
        expected["edge_weight"] = ((kept,), torch.float32)
    _check_tensors(path, graph, expected)
    ends = graph["edge_index"]
    if int(graph["edge_keep"].sum()) != kept or (
        kept and not 0 <= int(ends.min()) <= int(ends.max()) < nodes
    ):
        raise GassipError(
            f"{path} does not fit meta.json: its edges are not {kept} among {nodes} nodes"
        )


def teacher_of(path: Path, meta: Meta, found: dict[str, Tensor]) -> Tensor | None:
    if "teacher" not in found:
        return None
    shape = (meta["nodes"], len(meta["class_names"]))
    _check_tensors(path, {"teacher": found["teacher"]}, {"teacher": (shape, torch.float32)})
    return found["teacher"]


def weight_keep_of(path: Path, net: Net, found: dict[str, Tensor]) -> list[Tensor]:
    mine = {name: value for name, value in found.items() if name.startswith("weight_keep.")}
    expected = {
        f"weight_keep.{at}": (layer.weight.shape, torch.bool) for at, layer in enumerate(net.layers)
    }
    _check_tensors(path, mine, expected)
    return [mine[name] for name in expected]


def start_weights(path: Path, net: Net, found: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Weights a retraining may start from, those of norms included; their running statistics start
    anew."""
    mine = {
        name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)
    }
    _check_tensors(
        path, mine, {name: (value.shape, value.dtype) for name, value in net.named_parameters()}
    )
    return mine
