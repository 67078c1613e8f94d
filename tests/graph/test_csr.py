import numpy as np
import pytest
import torch
from scipy import sparse as sp

from gassip.graph.csr import Csr
from gassip.nn.kernels import multiply


def random_csr(seed: int, rows: int = 5, cols: int = 7) -> Csr:
    """Rectangular, with an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, cols)) < 0.4, rng.normal(size=(rows, cols)), 0)
    dense[rows // 2], dense[:, cols // 2] = 0, 0
    return Csr.from_scipy(sp.csr_array(dense))


def test_transpose_is_scipys() -> None:
    matrix = random_csr(3)
    rowptr, col, order = matrix.transpose
    turned = sp.csr_array(matrix.to_scipy().T)
    assert rowptr.tolist() == turned.indptr.tolist()
    assert col.tolist() == turned.indices.tolist()
    assert matrix.value is not None and matrix.value[order].tolist() == turned.data.tolist()


def test_from_scipy_is_canonical() -> None:
    # row 0 holds (0, 2) twice, unsorted, and a stored zero; row 1 is empty
    messy = sp.csr_array(
        (np.array([5.0, 1.0, 2.0, 0.0]), np.array([2, 0, 2, 1]), np.array([0, 4, 4])), shape=(2, 3)
    )
    clean = Csr.from_scipy(messy)
    assert clean.rowptr.tolist() == [0, 2, 2] and clean.rowptr.dtype == torch.int32
    assert clean.col.tolist() == [0, 2] and clean.col.dtype == torch.int32
    assert (
        clean.value is not None
        and clean.value.tolist() == [1.0, 7.0]
        and clean.value.dtype == torch.float32
    )
    assert clean.shape == (2, 3) and clean.nnz == 2
    assert messy.nnz == 4  # the caller's matrix is as it was


@pytest.mark.parametrize("form", [sp.coo_array, sp.csc_array, sp.lil_array, sp.csr_matrix])
def test_from_scipy_takes_every_form(form: type) -> None:
    table = np.array([[0, 1, 0], [2, 0, 3]])
    np.testing.assert_array_equal(Csr.from_scipy(form(table)).to_scipy().toarray(), table)


def test_pattern_of_sorted_edges() -> None:
    pattern = Csr.from_sorted_edges(torch.tensor([0, 2, 2]), torch.tensor([1, 0, 3]), (4, 4))
    assert pattern.rowptr.tolist() == [0, 1, 1, 3, 3]
    assert pattern.row.tolist() == [0, 2, 2] and pattern.col64.tolist() == [1, 0, 3]
    assert pattern.to_scipy().toarray().sum() == 3
    with pytest.raises(ValueError, match="pass value="):
        multiply(pattern, torch.ones(4, 1))


def test_sampled_is_the_dense_product_where_stored() -> None:
    matrix = random_csr(4)
    left, right = torch.randn(5, 3), torch.randn(7, 3)
    torch.testing.assert_close(
        matrix.sampled(left, right), (left @ right.t())[matrix.row, matrix.col64]
    )


def test_with_value_shares_the_pattern() -> None:
    matrix = random_csr(5)
    assert matrix.value is not None
    other = matrix.with_value(matrix.value * 2)
    np.testing.assert_allclose(other.to_scipy().toarray(), 2 * matrix.to_scipy().toarray())
    assert other.transpose is matrix.transpose


def test_a_scipy_copy_shares_nothing_with_its_original() -> None:
    own = Csr.from_scipy(sp.csr_array(np.eye(3, dtype=np.float32)))
    copy = own.to_scipy()
    copy.data[:] = 5
    assert own.value is not None and own.value.tolist() == [1.0, 1.0, 1.0]


def test_the_pattern_with_its_diagonal() -> None:
    matrix = random_csr(3, 6, 6)
    assert matrix.value is not None
    pattern, entry, loop = matrix.looped
    value = torch.empty(pattern.nnz)
    value[entry], value[loop] = matrix.value, torch.arange(1.0, 7.0)
    whole = pattern.with_value(value).to_scipy().toarray()
    np.testing.assert_allclose(whole, matrix.to_scipy().toarray() + np.diag(np.arange(1.0, 7.0)))
