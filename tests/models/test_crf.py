"""Our CRF against the oracle, against pytorch-crf, and against every path counted one by one."""

import itertools

import pytest
import torch
import torchcrf
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
from wardround.models.crf import CRF

TOLERANCE = 1e-8


def filled(inputs: dict[str, object]) -> CRF:
    """A CRF with the oracle's scores, in double precision."""
    crf = CRF(len(torch.tensor(inputs["start"]))).double()
    with torch.no_grad():
        for name, parameter in crf.named_parameters():
            parameter.copy_(torch.tensor(inputs[name], dtype=torch.float64))
    return crf


def theirs(crf: CRF) -> torchcrf.CRF:
    """pytorch-crf with the same scores."""
    other = torchcrf.CRF(len(crf.start), batch_first=True).to(crf.start.dtype)
    with torch.no_grad():
        other.start_transitions.copy_(crf.start)
        other.end_transitions.copy_(crf.end)
        other.transitions.copy_(crf.transitions)
    return other


@pytest.mark.parametrize("case", oracle.params("crf"))
def test_oracle_crf(case: oracle.Case) -> None:
    """Likelihood, partition, score of the gold path, best path and gradient."""
    inputs, expected = case["inputs"], case["expected"]
    crf = filled(inputs)
    emissions = torch.tensor(inputs["emissions"], dtype=torch.float64, requires_grad=True)
    tags, lengths = torch.tensor(inputs["tags"]), torch.tensor(inputs["mask"]).sum(1)
    scores = crf(emissions, tags, lengths)
    scores.sum().backward()

    def same(key: str, actual: Tensor) -> None:
        assert torch.allclose(torch.tensor(expected[key], dtype=torch.float64), actual, rtol=0, atol=TOLERANCE)

    same("log_likelihood", scores)
    same("sum", scores.sum())
    same("mean", scores.mean())
    same("token_mean", scores.sum() / lengths.sum())
    same("log_partition", crf.partition(emissions, lengths))
    same("gold_score", crf.score(emissions, tags, lengths))
    assert emissions.grad is not None
    same("grad_emissions_of_sum", emissions.grad)
    best = crf.decode(emissions, lengths)
    assert expected["viterbi"] == [path[:length] for path, length in zip(best.tolist(), lengths.tolist(), strict=True)]
    same("viterbi_score", crf.score(emissions, best, lengths))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    tags=st.integers(1, 7),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_equals_pytorch_crf_in_values_gradients_and_paths(
    seed: int, lengths: list[int], tags: int, scale: float
) -> None:
    """On random sentences of any lengths, whatever stands behind their ends."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.tensor(lengths)
    crf = CRF(tags).double()
    other = theirs(crf)
    given_ = torch.randn(len(lengths), max(lengths), tags, generator=generator, dtype=torch.float64) * scale
    gold = torch.randint(tags, (len(lengths), max(lengths)), generator=generator)
    mask = torch.arange(max(lengths)) < sizes[:, None]
    mine, yours = given_.clone().requires_grad_(), given_.clone().requires_grad_()

    ours = crf(mine, gold, sizes)
    their = other(yours, gold, mask=mask, reduction="none")
    assert torch.allclose(their, ours, rtol=1e-9, atol=1e-9)
    weights = torch.randn(len(lengths), generator=generator, dtype=torch.float64)
    (ours * weights).sum().backward()
    (their * weights).sum().backward()
    for expected, actual in (
        (yours.grad, mine.grad),
        (other.start_transitions.grad, crf.start.grad),
        (other.end_transitions.grad, crf.end.grad),
        (other.transitions.grad, crf.transitions.grad),
    ):
        assert actual is not None
        wanted = torch.zeros_like(actual) if expected is None else expected  # theirs, of sentences of one token
        assert torch.allclose(wanted, actual, rtol=1e-8, atol=1e-9)
    paths = crf.decode(given_, sizes).tolist()
    assert other.decode(given_, mask=mask) == [path[:length] for path, length in zip(paths, lengths, strict=True)]


def test_the_likelihoods_of_all_paths_add_up_to_one() -> None:
    """So the partition is the sum over paths, counted here one by one."""
    crf, emissions = CRF(3).double(), torch.randn(1, 4, 3, dtype=torch.float64)
    lengths = torch.tensor([4])
    every = torch.tensor(list(itertools.product(range(3), repeat=4)))
    likely = crf(emissions.expand(len(every), -1, -1), every, lengths.expand(len(every))).detach().exp()
    assert 1.0 == pytest.approx(float(likely.sum()))
    best = every[likely.argmax()]
    assert best.tolist() == crf.decode(emissions, lengths)[0].tolist()


def test_without_gradients_the_partition_is_the_same() -> None:
    crf, emissions, lengths = CRF(5), torch.randn(4, 9, 5), torch.tensor([9, 1, 4, 8])
    with torch.no_grad():
        quiet = crf.partition(emissions, lengths)
    assert torch.equal(crf.partition(emissions, lengths), quiet)


def test_forbidden_moves_give_no_nan() -> None:
    """A transition of −10⁴ can be learnt or set: no logarithm of zero comes of it, forward or backward."""
    crf = CRF(3)
    with torch.no_grad():
        crf.transitions[0] = torch.tensor([0.0, -1e4, -1e4])
        crf.start.copy_(torch.tensor([0.0, -1e4, -1e4]))
    emissions = torch.randn(2, 5, 3, requires_grad=True)
    found = crf(emissions, torch.zeros(2, 5, dtype=torch.int64), torch.tensor([5, 3]))
    found.sum().backward()
    assert bool(torch.isfinite(found).all())
    for parameter in (emissions, *crf.parameters()):
        assert parameter.grad is not None
        assert bool(torch.isfinite(parameter.grad).all())
