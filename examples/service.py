"""The runtime behind FastAPI: labels over HTTP, without torch, with every request bounded.

    pip install fastapi uvicorn
    GASSIP_RUN=runs/quickstart uvicorn --app-dir examples --factory service:create_app \
        --limit-concurrency 32
    curl -d '{"nodes": [0, 17]}' -H 'content-type: application/json' localhost:8000/label

A request has at most 64 KiB, 100 nodes, 1,000 features that are not zero and 100 neighbours.
"""

import os
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field, FiniteFloat

from gassip.runtime import load

MOST_BYTES = 64 * 1024
Node = Annotated[int, Field(ge=0)]


class Known(BaseModel):
    """Nodes of the run's graph, by number."""

    nodes: list[Node] = Field(min_length=1, max_length=100)


class New(BaseModel):
    """A node that the graph does not have: its features by column, and its neighbours."""

    features: dict[Node, FiniteFloat] = Field(max_length=1000)
    neighbours: list[Node] = Field(default=[], max_length=100)


class Label(BaseModel):
    label: str
    probability: float


def create_app(run: str | None = None) -> FastAPI:
    """The service for a run's folder; of the environment's GASSIP_RUN if none is given."""
    model = load(run or os.environ["GASSIP_RUN"])
    nodes, app = len(model.predict()), FastAPI(title="gassip")

    @app.middleware("http")
    async def bounded(request: Request, call_next: Any) -> Response:
        """Refuse a body that is too long, or does not say how long it is."""
        length = request.headers.get("content-length", "0" if request.method == "GET" else "")
        if not length.isdecimal():
            return JSONResponse({"detail": "content-length is missing"}, 411)
        if int(length) > MOST_BYTES:
            return JSONResponse({"detail": f"more than {MOST_BYTES} bytes"}, 413)
        response: Response = await call_next(request)
        return response

    @app.exception_handler(RequestValidationError)
    async def refused(request: Request, error: RequestValidationError) -> Response:
        """What is wrong, without the input: of it an infinite number would be no JSON."""
        wrong = [f"{own['loc']}: {own['msg']}" for own in error.errors()[:10]]
        return JSONResponse({"detail": wrong}, 422)

    def check(wanted: list[int], below: int, what: str) -> None:
        if wanted and max(wanted) >= below:
            detail = f"{what} {max(wanted)} is not there; there are 0 to {below - 1}"
            raise HTTPException(422, detail)

    def labels(probability: np.ndarray) -> list[Label]:
        best = probability.argmax(1)
        return [
            Label(label=model.class_names[k], probability=row[k])
            for k, row in zip(best, probability, strict=True)
        ]

    @app.post("/label")
    async def label(known: Known) -> list[Label]:
        check(known.nodes, nodes, "node")
        return labels(await run_in_threadpool(model.predict_proba, nodes=known.nodes))

    @app.post("/label-new")
    async def label_new(new: New) -> Label:
        check(list(new.features), model.features, "feature")
        check(new.neighbours, nodes, "neighbour")
        row = np.zeros((1, model.features), dtype=np.float32)
        row[0, list(new.features)] = list(new.features.values())
        near = np.array(new.neighbours, dtype=np.int64)
        ends = np.concatenate([near, np.full(len(near), nodes)])
        edges = np.stack([ends, np.roll(ends, len(near))])  # both ways

        def answer() -> np.ndarray:
            return model.extend(row, edges).predict_proba(nodes=[nodes])

        return labels(await run_in_threadpool(answer))[0]

    @app.get("/health")
    async def health() -> dict[str, int]:
        return {"nodes": nodes, "classes": len(model.class_names)}

    return app
