import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp
from torch import Tensor

from gassip.graph.csr import Csr, iterate, multiply, segment_sum, transform


def random_csr(seed: int, rows: int = 5, cols: int = 7) -> Csr:
    """Rectangular, with an empty row and an empty column."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, cols)) < 0.4, rng.normal(size=(rows, cols)), 0)
    dense[rows // 2], dense[:, cols // 2] = 0, 0
    return Csr.from_scipy(sp.csr_array(dense))


def double(matrix: Csr) -> Tensor:
    assert matrix.value is not None
    return matrix.value.double()


def test_by_hand() -> None:
    # [[0, 2, 0], [0, 0, 0], [1, 0, 3]] · [[1, 2], [3, 4], [5, 6]] = [[6, 8], [0, 0], [16, 20]]
    matrix = Csr.from_scipy(sp.csr_array([[0, 2, 0], [0, 0, 0], [1, 0, 3]]))
    dense = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    torch.testing.assert_close(
        multiply(matrix, dense), torch.tensor([[6.0, 8.0], [0.0, 0.0], [16.0, 20.0]])
    )


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 9), st.integers(1, 5))
def test_multiply_agrees_with_scipy(seed: int, rows: int, cols: int, width: int) -> None:
    matrix = random_csr(seed, rows, cols)
    dense = torch.randn(cols, width, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        multiply(matrix, dense), torch.from_numpy(matrix.to_scipy() @ dense.numpy())
    )


@pytest.mark.parametrize("seed", range(3))
def test_gradients_to_dense_and_to_values(seed: int) -> None:
    matrix = random_csr(seed)
    value = double(matrix).requires_grad_()
    dense = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v, d: multiply(matrix, d, v), (value, dense))


def test_gradients_through_column_slices() -> None:
    matrix = random_csr(0)
    value = double(matrix).requires_grad_()
    wide = torch.randn(7, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v, d: multiply(matrix, d[:, 2:5], v), (value, wide))
    assert torch.autograd.gradcheck(lambda v, d: multiply(matrix, d, v)[:, 1::2], (value, wide))
    torch.testing.assert_close(
        multiply(matrix, wide[:, 2:5], value), multiply(matrix, wide, value)[:, 2:5]
    )


def test_gradient_of_a_transposed_dense() -> None:
    matrix = random_csr(0)
    dense = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda d: multiply(matrix, d.t(), double(matrix)), (dense,))


def test_one_matrix_used_twice_adds_its_gradients() -> None:
    square = random_csr(1, 6, 6)
    value = double(square).requires_grad_()
    dense = torch.randn(6, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda v, d: multiply(square, multiply(square, d, v).tanh(), v), (value, dense)
    )


def test_gradient_of_an_expanded_upstream() -> None:
    matrix = random_csr(2)
    dense = torch.randn(7, 3, requires_grad=True)
    multiply(matrix, dense).sum().backward()  # sum hands back an expanded, stride-0 gradient
    expected = matrix.to_scipy().T @ np.ones((5, 3), dtype=np.float32)
    torch.testing.assert_close(dense.grad, torch.from_numpy(expected))


def test_matrix_without_entries() -> None:
    empty = Csr.from_scipy(sp.csr_array((3, 4)))
    dense = torch.randn(4, 2, requires_grad=True)
    value = torch.zeros(0, requires_grad=True)
    out = multiply(empty, dense, value)
    out.sum().backward()
    assert torch.equal(out, torch.zeros(3, 2))
    assert dense.grad is not None and torch.equal(dense.grad, torch.zeros(4, 2))
    assert value.grad is not None and value.grad.shape == (0,)


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


def test_segment_sum() -> None:
    pattern = Csr.from_sorted_edges(torch.tensor([0, 2, 2]), torch.tensor([1, 0, 1]), (4, 2))
    assert segment_sum(pattern, torch.tensor([1.0, 2.0, 4.0])).tolist() == [1.0, 0.0, 6.0, 0.0]
    value = torch.randn(3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: segment_sum(pattern, v), (value,))


def test_transform_dense_and_sparse_agree() -> None:
    matrix, weight = random_csr(6), torch.randn(7, 4)
    torch.testing.assert_close(
        transform(matrix, weight), transform(torch.from_numpy(matrix.to_scipy().toarray()), weight)
    )


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


@pytest.mark.parametrize("start", [1.0, 0.4])
def test_iterating_is_multiplying_again_and_again_and_so_is_its_gradient(start: float) -> None:
    matrix = random_csr(1, 6, 6)
    value, dense = double(matrix), torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    z = start * dense
    for _ in range(4):
        z = multiply(matrix, z, value) + 0.3 * dense
    own = iterate(matrix, value, dense, steps=4, back=0.3, start=start)
    torch.testing.assert_close(own, z)
    assert torch.autograd.gradcheck(
        lambda d: iterate(matrix, value, d, steps=4, back=0.3, start=start), (dense,)
    )
    assert torch.autograd.gradcheck(
        lambda d: iterate(matrix, value, d.t().contiguous().t(), steps=2, back=0.3, start=start),
        (dense,),
    )
