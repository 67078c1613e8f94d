import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse as sp
from torch import Tensor

from gassip.graph.csr import Csr
from gassip.nn.dropout import drop, thinned
from gassip.nn.kernels import iterate, log_softmax, multiply, product, segment_sum, transform
from tests.graph.test_csr import random_csr


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


@pytest.mark.parametrize("start", [1.0, 0.4])
def test_iterating_is_multiplying_again_and_again_and_so_is_its_gradient(start: float) -> None:
    pattern = random_csr(1, 6, 6)
    value, dense = double(pattern), torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    matrix = pattern.with_value(value)
    z = start * dense
    for _ in range(4):
        z = multiply(matrix, z, value) + 0.3 * dense
    own = iterate(matrix, dense, steps=4, back=0.3, start=start)
    torch.testing.assert_close(own, z)
    assert torch.autograd.gradcheck(
        lambda d: iterate(matrix, d, steps=4, back=0.3, start=start), (dense,)
    )
    assert torch.autograd.gradcheck(
        lambda d: iterate(matrix, d.t().contiguous().t(), steps=2, back=0.3, start=start),
        (dense,),
    )


@pytest.mark.parametrize("p", [0.2, 0.8])
def test_what_dropout_leaves_of_a_sparse_matrix_is_what_it_does_not_set_to_0(p: float) -> None:
    matrix, weight = random_csr(3, 9, 7), torch.randn(7, 4)
    found = []
    for drops in (drop, thinned):
        torch.manual_seed(0)
        own = weight.clone().requires_grad_()
        dropped = drops(matrix, p)
        assert isinstance(dropped, Csr)
        out = multiply(dropped, own)
        out.square().sum().backward()
        found.append((out.detach(), own.grad))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("classes", [1, 3, 20])
def test_log_softmax_is_torchs_with_its_gradient(classes: int) -> None:
    z = 50 * torch.randn(6, classes, dtype=torch.float64)
    torch.testing.assert_close(log_softmax(z), torch.log_softmax(z, 1))
    far = torch.tensor([[1e4, -1e4, 0.0]])  # neither overflows nor is lost
    torch.testing.assert_close(log_softmax(far), torch.log_softmax(far, 1))
    assert torch.autograd.gradcheck(log_softmax, (z.div(50).requires_grad_(),))


@pytest.mark.parametrize("columns", [16, 22, 31])
def test_turned_products_have_the_bits_of_plain_ones(columns: int) -> None:
    generator = torch.Generator().manual_seed(columns)
    x, weight, grad = (
        torch.randn(*shape, generator=generator)
        for shape in ((300, 200), (200, columns), (300, columns))
    )
    found = []
    for own in (lambda a, b: a @ b, product):
        a, b = x.clone().requires_grad_(), weight.clone().requires_grad_()
        own(a, b).backward(grad)
        found.append((own(x, weight), a.grad, b.grad))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_narrow_products_have_the_gradient_of_wide_ones() -> None:
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(product(x, weight), x @ weight)
    assert torch.autograd.gradcheck(product, (x, weight))
