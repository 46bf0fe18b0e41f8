"""Adjacency matrices in .npz files, as `scipy.sparse.save_npz` writes them. SciPy itself is not needed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from blogdit.core.errors import InputError
from blogdit.core.files import replacing
from blogdit.formats.graph_text import refuse_absurd
from blogdit.formats.limits import Limits
from blogdit.problems.graphs import Graph, from_adjacency

ROWS = {"csr": True, "csc": False}  # whether `indptr` counts rows, or columns


def read_npz(path: str | Path, limits: Limits) -> Graph:
    """The graph of a matrix in the formats csr, csc and coo."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:  # what it says about its size is all that is unpacked
            limits.require("bytes", sum(part.file_size for part in archive.infolist()), path)
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Any] = dict(file)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError("no such file", path) from None
    except Exception as error:  # a damaged archive, or a damaged array in it, has many ways to fail
        detail = " ".join(str(error).split())[:200]
        raise InputError(f"not a readable .npz file: {detail or type(error).__name__}", path) from None
    try:
        kind = str(arrays["format"].astype(str))
        shape, entries = arrays["shape"].astype(np.int64).tolist(), arrays["data"]
        refuse_absurd(max(shape), len(entries), path)
        limits.require("vertices", max(shape), path)
        limits.require("edges", len(entries), path)
        if kind == "coo":
            return from_adjacency(shape, arrays["row"], arrays["col"], entries)
        if kind not in ROWS:
            raise InputError(f"a matrix in the format {kind!r}; expected csr, csc or coo", path)
        counts, others = np.diff(arrays["indptr"]), arrays["indices"]
        if (counts < 0).any() or counts.sum() != len(others):
            raise InputError("a damaged matrix: 'indptr' does not fit 'indices'", path)
        owners = np.repeat(np.arange(len(counts)), counts)
        rows, columns = (owners, others) if ROWS[kind] else (others, owners)
        return from_adjacency(shape, rows, columns, entries)
    except KeyError as error:
        raise InputError(f"has no array {error}; expected what scipy.sparse.save_npz writes", path) from None
    except InputError:
        raise
    except (ValueError, TypeError) as error:
        raise InputError(str(error), path) from None


def write_npz(graph: Graph, path: str | Path) -> None:
    """Both triangles, as csr."""
    weights = np.ones(len(graph.edges)) if graph.weights is None else graph.weights
    ends = np.concatenate([graph.edges, graph.edges[:, ::-1]])
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    arrays: dict[str, Any] = {
        "format": np.array(b"csr"),
        "shape": np.array([graph.vertices, graph.vertices]),
        "indptr": np.searchsorted(ends[order, 0], np.arange(graph.vertices + 1)),
        "indices": ends[order, 1],
        "data": np.tile(weights, 2)[order],
    }
    try:
        with replacing(Path(path)) as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path) from None
