"""Sparse matrices as graphs, from files and in memory."""

from __future__ import annotations

import numpy as np
import pytest

import blogdit
from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.problems import coloring, generate, maxcut
from blogdit.problems.graphs import as_graph, from_adjacency
from test_formats import same

PATH = ([0, 1, 1, 2], [1, 0, 2, 1])  # rows and columns of a path of three vertices, both ways


def test_both_triangles_or_one():
    for rows, columns in (PATH, ([0, 1], [1, 2]), ([1, 2], [0, 1])):
        graph = from_adjacency((3, 3), rows, columns, np.ones(len(rows)))
        assert (graph.edges.tolist(), graph.weights) == ([[0, 1], [1, 2]], None)
    weighted = from_adjacency((3, 3), *PATH, [2, 2, -1.5, -1.5])
    assert weighted.weights.tolist() == [2, -1.5]


def test_entries_add_up_and_zeros_are_no_edges():
    graph = from_adjacency((3, 3), [0, 0, 1], [1, 1, 2], [1, 2, 0])
    assert (graph.edges.tolist(), graph.weights.tolist()) == ([[0, 1]], [3])
    assert from_adjacency((2, 2), [], [], []).vertices == 2


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (((2, 3), [0], [1], [1]), r"must be square, got shape \(2, 3\)"),
        (((3, 3), [0, 1], [1, 1], [1, 1]), "a self-loop at 1"),
        (((3, 3), *PATH, [1, 2, 1, 1]), "must be symmetric, or one triangle"),
        (((3, 3), [0, 2], [1, 1], [1, 1]), "must be symmetric, or one triangle"),
        (((3, 3), [0], [3], [1]), "rows and columns must lie in 0..2, got 3"),
        (((3, 3), [0], [1], [np.nan]), "entries must be finite"),
    ],
)
def test_what_is_no_graph(matrix, message):
    with pytest.raises(ValueError, match=message):
        from_adjacency(*matrix)


def test_round_trip_of_a_file(tmp_path):
    (cut,) = generate("maxcut", 1, weights="normal")
    formats.write(cut, tmp_path / "x.npz")
    (back,) = formats.read(tmp_path / "x.npz", problem="maxcut")
    assert same(cut, back)
    assert back.name == "x"
    with pytest.raises(InputError, match=r"x.npz: a graph without a problem; expected --problem with one of"):
        formats.read(tmp_path / "x.npz")
    with pytest.raises(InputError, match="no place for edges of weight 0"):
        formats.write(maxcut.build((2, [[0, 1]], [0])), tmp_path / "y.npz")


def test_files_that_hold_no_matrix(tmp_path):
    path = tmp_path / "x.npz"
    with pytest.raises(InputError, match="no such file"):
        formats.read(path, problem="mis")
    np.savez(path, edges=[[0, 1]])
    with pytest.raises(InputError, match=r"has no array 'format'; expected what scipy.sparse.save_npz writes"):
        formats.read(path, problem="mis")
    np.savez(path, format=b"dia", shape=[2, 2], data=[1])
    with pytest.raises(InputError, match="a matrix in the format 'dia'; expected csr, csc or coo"):
        formats.read(path, problem="mis")
    np.savez(path, format=b"csr", shape=[2, 2], data=[1], indices=[1], indptr=[0, 3, 1])
    with pytest.raises(InputError, match="'indptr' does not fit 'indices'"):
        formats.read(path, problem="mis")


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_matrices_of_scipy(tmp_path, kind):
    sparse = pytest.importorskip("scipy.sparse")
    (cut,) = generate("maxcut", 1, weights="signs")
    graph = maxcut.graph_of(cut)
    matrix = sparse.coo_array((graph.weights, graph.edges.T), shape=(cut.size, cut.size))
    matrix = (matrix + matrix.T).asformat(kind)
    assert same(blogdit.as_instance(matrix, problem="maxcut"), cut)
    sparse.save_npz(tmp_path / "x.npz", matrix)
    assert same(formats.read(tmp_path / "x.npz", problem="maxcut")[0], cut)
    formats.write(cut, tmp_path / "y.npz")
    assert (sparse.load_npz(tmp_path / "y.npz") != matrix).nnz == 0


def test_a_matrix_in_memory_needs_no_scipy():
    class Matrix:
        shape, row, col, data = (3, 3), np.array(PATH[0]), np.array(PATH[1]), np.ones(4, np.bool_)

        def tocoo(self):
            return self

    assert same(coloring.build(as_graph(Matrix()), 2), coloring.build((3, [[0, 1], [1, 2]]), 2))
