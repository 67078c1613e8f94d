"""A contextual stochastic block model, and the best accuracy that any method can have on it.

    y_i uniform over C classes
    x_i = μ_{y_i} + N(0, I),      |μ_c − μ_d| = signal for c ≠ d (D ≥ C directions)
    edges: N · degree / 2 pairs; both ends of one class with probability homophily, else of two

Best possible accuracy: belief propagation with the true parameters, which is exact on trees and
hence in the limit of large N at fixed degree (Deshpande et al., NeurIPS 2018):

    m_{i→j}(c) ∝ p_i(c) exp(−f_c) Π_{k ∈ N_i \\ j} Σ_d P(c, d) m_{k→i}(d)
    f_c = C · degree · Σ_d P(c, d) mean_k m_k(d)

with p_i the Gaussian posterior of x_i, or the label of a training node. f is what the pairs without
an edge say (Decelle et al., 2011): without it all nodes may end in one class.
Pairs are drawn and heard piece by piece: what both ends say, 8 E C bytes, is held in memory.
Shapes: N nodes, E pairs, C classes, D features.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from gassip.large.parameters import check_parameters

PIECE = 2**24  # pairs that are drawn, or heard, at once


@dataclass(frozen=True, kw_only=True)
class BlockModel:
    """The parameters, all that the best possible method may know."""

    nodes: int
    degree: float = 10.0
    classes: int = 4
    features: int = 16
    homophily: float = 0.6  # share of edges within a class
    signal: float = 1.0  # distance between the means of two classes
    labelled: float = 0.1  # share of training nodes; as many again validate
    seed: int = 0

    @property
    def means(self) -> np.ndarray:
        """μ [C, D]"""
        return np.eye(self.classes, self.features, dtype=np.float32) * self.signal / np.sqrt(2)


def model_of(nodes: int, seed: int, given: Mapping[str, float]) -> BlockModel:
    """The model with parameters from the command line, each within its range."""
    check_parameters(given)
    return BlockModel(
        nodes=nodes,
        degree=given["degree"],
        classes=int(given["classes"]),
        features=int(given["features"]),
        homophily=given["homophily"],
        signal=given["signal"],
        labelled=given["labelled"],
        seed=seed,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Drawn:
    """One graph of the model."""

    x: np.ndarray  # [N, D] float32
    y: np.ndarray  # [N] int64
    pairs: np.ndarray  # [E, 2] int32 or int64, each once
    split: np.ndarray  # [N] int8: 1 train, 2 val, 3 test


def draw(model: BlockModel) -> Drawn:
    generator = np.random.default_rng(model.seed)
    y = generator.integers(model.classes, size=model.nodes)
    x = generator.standard_normal((model.nodes, model.features), dtype=np.float32)
    for part in parts(model.nodes):
        x[part] += model.means[y[part]]
    chance = generator.random(model.nodes)
    split = np.full(model.nodes, 3, dtype=np.int8)
    split[chance < 2 * model.labelled] = 2
    split[chance < model.labelled] = 1
    return Drawn(x=x, y=y, pairs=draw_pairs(model, y, generator), split=split)


def draw_pairs(model: BlockModel, y: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Pairs of different nodes, each once, [E, 2]."""
    by_class = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[by_class], np.arange(model.classes + 1))
    keys = np.concatenate(
        [
            draw_keys(model, y, by_class, starts, part.stop - part.start, generator)
            for part in parts(round(model.nodes * model.degree / 2))
        ]
    )
    keys.sort()
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    pairs = np.empty((len(keys), 2), dtype=np.int32 if model.nodes < 2**31 else np.int64)
    for part in parts(len(keys)):
        pairs[part, 0], pairs[part, 1] = np.divmod(keys[part], model.nodes)
    return pairs


def draw_keys(
    model: BlockModel,
    y: np.ndarray,
    by_class: np.ndarray,
    starts: np.ndarray,
    count: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """i N + j of up to `count` pairs i < j."""
    one = generator.integers(model.nodes, size=count)
    same = generator.random(count) < model.homophily
    shift = generator.integers(1, model.classes, size=count)
    other = np.where(same, y[one], (y[one] + shift) % model.classes)
    place = (generator.random(count) * np.diff(starts)[other]).astype(np.int64)
    two = by_class[starts[other] + place]
    low, high = np.minimum(one, two), np.maximum(one, two)
    return np.asarray((low * model.nodes + high)[low != high])


def parts(count: int) -> Iterator[slice]:
    """0..count in pieces, at least one."""
    for start in range(0, max(1, count), PIECE):
        yield slice(start, min(count, start + PIECE))


def best_accuracy(model: BlockModel, drawn: Drawn, *, steps: int = 10) -> float:
    """Share of test nodes that belief propagation gets right."""
    log_probs = beliefs(model, drawn, steps)
    test = drawn.split == 3
    return float((log_probs[test].argmax(1) == drawn.y[test]).mean())


def beliefs(model: BlockModel, drawn: Drawn, steps: int, *, absent: bool = True) -> np.ndarray:
    """log of the marginals [N, C], up to a constant per node; `absent` pairs count by f."""
    prior = log_prior(model, drawn)
    pairs, total = drawn.pairs, prior
    forth, back = prior[pairs[:, 0]], prior[pairs[:, 1]]  # what the ends say to each other [E, C]
    for _ in range(steps):
        heard = np.zeros(prior.shape)
        for part in parts(len(pairs)):
            add_rows(heard, pairs[part, 1], passed(model, forth[part]))
            add_rows(heard, pairs[part, 0], passed(model, back[part]))
        absence = field(model, total) if absent else 0
        total = (prior + heard - absence).astype(np.float32)
        for part in parts(len(pairs)):
            said = passed(model, forth[part])
            forth[part] = total[pairs[part, 0]] - passed(model, back[part])
            back[part] = total[pairs[part, 1]] - said
    return total


def field(model: BlockModel, total: np.ndarray) -> np.ndarray:
    """f [C]; the same for all classes, so without effect, if these are believed equally large."""
    common = normalised(total).mean(0)
    across = (1 - model.homophily) / (model.classes - 1)
    mixed = across + (model.homophily - across) * common
    return np.asarray(model.classes * model.degree * mixed, dtype=np.float32)


def normalised(total: np.ndarray) -> np.ndarray:
    """Probabilities [N, C] of logarithms up to a constant."""
    probs = np.exp(total - total.max(1, keepdims=True))
    return np.asarray(probs / probs.sum(1, keepdims=True))


def log_prior(model: BlockModel, drawn: Drawn) -> np.ndarray:
    """log p_i(c) = x_i · μ_c − |μ_c|² / 2; a training node is certain of its label."""
    means = model.means
    prior = drawn.x @ means.T - (means * means).sum(1) / 2
    train = drawn.split == 1
    prior[train] = -50.0
    prior[train, drawn.y[train]] = 0.0
    return np.asarray(prior, dtype=np.float32)


def passed(model: BlockModel, message: np.ndarray) -> np.ndarray:
    """log Σ_d P(c, d) m(d), with P homophily within a class and the rest spread over the others."""
    probs = normalised(message)
    across = (1 - model.homophily) / (model.classes - 1)
    return np.asarray(np.log(across + (model.homophily - across) * probs))


def add_rows(total: np.ndarray, receiver: np.ndarray, values: np.ndarray) -> None:
    """total_i += Σ over the edges into i."""
    for column, value in enumerate(values.T):
        total[:, column] += np.bincount(receiver, value, len(total))
