"""Variables that follow from others: what they are, that nothing samples them, and that a gradient passes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blogdit.core.constraints import Count, Function, Linear, NotEqual, Sum, Table
from blogdit.core.derived import Derived, sources
from blogdit.core.instance import Instance, Objective
from blogdit.method.batch import collate
from blogdit.method.blocks import SELECTORS, Selector, decode
from blogdit.method.chain import ChainConfig, prior, reverse_step, sample
from blogdit.method.derived import derive
from blogdit.method.energy import energy, one_hot, violation_scores
from helpers import noise, random_simplex, small_denoiser

# x0, x1, x2 in 0..2. x3 = x0 + [x1 = 2] - 1, in -1..2. x4 = max(x0, x3). x5 says whether x0 + x1 >= 2. x6 = xs[x2] for
# xs = (x0, x1, x4). x7 = 2 - x2, from a table. x8 = x3 + x4, in -1..4.
DEFINED = Instance(
    [3, 3, 3, 4, 4, 2, 4, 3, 6],
    (
        NotEqual([[0, 1]]),
        Sum([[0, 1], [0, 1, 3]], [[1, 1], [1, 1, -1]], [[-1, -1], [-1, 2, -1]], [0, 1], [4, 1]),
        Function("max", [4], [[0, 3]]),
        Sum([[0, 1]], low=[2], when=[[5, 1]], exactly=True),
        Function("element", [6], [[2, 0, 1, 4]]),
        Table([[2, 7]], [[0, 2], [1, 1], [2, 0]]),
        Linear([[8, 3, 4]], [[-1, 1, 1]], ["="], [0]),
    ),
    values=[[0, 1, 2]] * 3 + [[-1, 0, 1, 2], [-1, 0, 1, 2], [0, 1], [-1, 0, 1, 2], [0, 1, 2], [-1, 0, 1, 2, 3, 4]],
    derived=[(3, 1, 1), (4, 2, 0), (5, 3, 0), (6, 4, 0), (7, 5, 0), (8, 6, 0)],
)


def follow(x: tuple[int, int, int]) -> list[int]:
    """All numbers of DEFINED, in plain Python."""
    third = x[0] + (x[1] == 2) - 1
    fourth = max(x[0], third)
    chosen = (x[0], x[1], fourth)[x[2]]
    return [*x, third, fourth, int(x[0] + x[1] >= 2), chosen, 2 - x[2], third + fourth]


def test_they_are_computed_exactly():
    """For all values of the others, whatever the logits of the derived variables say."""
    every = list(itertools.product(range(3), repeat=3))
    batch = collate([DEFINED], chains=len(every))
    logits = torch.randn(len(every), 1, 9, 6, generator=torch.Generator().manual_seed(0))
    logits[:, 0, :3] = -5.0
    logits[:, 0, :3].scatter_(2, torch.tensor(every)[..., None], 5.0)
    for values, x in zip(decode(batch.lay(logits), batch).numpy(), every, strict=True):
        assert DEFINED.domains.numbers(values).tolist() == follow(x)
        violated = {v.kind for v in DEFINED.verify(values).violations()}
        assert violated <= {"not_equal"}, "what defines a variable holds"
        assert ("not_equal" in violated) == (x[0] == x[1])


def test_they_are_computed_in_any_company():
    """In a batch with instances that derive less, or nothing."""
    plain = Instance([3, 3], (NotEqual([[0, 1]]),))
    short = Instance([2, 2, 3], (Linear([[0, 1, 2]], [[1, 1, -1]], ["="], [0]),), derived=[(2, 0, 0)])
    batch = collate([plain, short, DEFINED])
    logits = torch.randn(
        batch.rows, batch.groups * batch.variables, batch.values, generator=torch.Generator().manual_seed(1)
    )
    together = batch.per_instance(decode(logits, batch))[0]
    for place, one in enumerate((plain, short, DEFINED)):
        alone = collate([one])
        own = batch.per_instance(logits)[0, place, : one.size, : alone.values]
        assert together[place, : one.size].tolist() == decode(own[None], alone)[0].tolist()
        derived = {row.variable for row in one.derived}
        assert {v.kind for v in one.verify(together[place, : one.size].numpy()).violations()} <= {"not_equal"}
        assert batch.per_instance(batch.free)[0, place, : one.size].tolist() == [
            i not in derived for i in range(one.size)
        ]


def test_numbers_with_gaps():
    """y = 2 x, for y in 0, 2, 4: between two numbers the chance is divided by their distance."""
    rule = (Linear([[0, 1]], [[2, -1]], ["="], [0]),)
    instance = Instance([3, 3], rule, values=[[0, 1, 2], [0, 2, 4]], derived=[(1, 0, 0)])
    batch = collate([instance], chains=3)
    assert derive(one_hot(torch.tensor([[0, 0], [1, 0], [2, 0]]), batch), batch)[:, 1].argmax(-1).tolist() == [0, 1, 2]
    x = torch.tensor([[[0.75, 0.25, 0.0], [1.0, 0.0, 0.0]]] * 3)
    assert derive(x, batch)[0, 1].tolist() == [0.75, 0.25, 0.0]


def test_a_value_that_the_domain_lacks_is_the_nearest_and_a_violation():
    instance = Instance([4, 4, 3], (Linear([[0, 1, 2]], [[1, 1, -1]], ["="], [0]),), derived=[(2, 0, 0)])
    batch = collate([instance])
    values = decode(batch.certain(torch.tensor([[3, 3, 0]])), batch)
    assert values.tolist() == [[3, 3, 2]]
    assert instance.verify(values[0].numpy()).violated == 1


def test_what_no_tuple_allows_is_the_first_value_and_a_violation():
    instance = Instance([3, 3], (Table([[0, 1]], [[0, 2], [1, 1]]),), derived=[(1, 0, 0)])
    batch = collate([instance])
    assert [decode(batch.certain(torch.tensor([[x, 1]])), batch)[0].tolist() for x in range(3)] == [
        [0, 2],
        [1, 1],
        [2, 0],
    ]


def test_given_variables_stay_as_they_are():
    """A given that is also derived is a constraint on the others."""
    fixed = Instance([2, 2, 3], (Linear([[0, 1, 2]], [[1, 1, -1]], ["="], [0]),), givens={2: 1}, derived=[(2, 0, 0)])
    batch = collate([fixed])
    assert batch.free.tolist() == [[True, True, False]]
    logits = prior(batch, ChainConfig(), noise())
    assert logits.argmax(-1)[0, 2] == 1
    assert decode(batch.certain(torch.tensor([[1, 1, 1]])), batch).tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("name", SELECTORS)
def test_no_block_holds_one_and_the_state_knows_them(name):
    batch = collate([DEFINED], chains=4)
    denoise, draws = small_denoiser().on(batch), noise(3)
    logits = prior(batch, ChainConfig(), draws)
    selector = Selector(name, batch)
    rates = [torch.full((4, 1, 1), 0.8)] * 3
    for step in sample(denoise, batch, logits, rates, ChainConfig(), selector, draws):
        assert not step.block[:, 3:].any()
        numbers = [DEFINED.domains.numbers(row) for row in decode(step.logits, batch).numpy()]
        assert [row.tolist() for row in numbers] == [follow(tuple(row[:3])) for row in numbers]
        outside = ~step.block[..., None] & ~batch.derived[..., None]
        assert torch.equal(step.logits.where(outside, 0.0), logits.where(outside, 0.0)), "copied bit for bit"
        logits = step.logits


def test_rows_are_chances_and_a_gradient_passes():
    batch = collate([DEFINED], chains=8)
    x = random_simplex(batch).requires_grad_()
    rows = derive(x, batch)
    assert torch.allclose(rows.sum(-1), torch.ones(8, 9), atol=1e-5)
    assert (rows >= 0).all()
    (gradient,) = torch.autograd.grad(rows[:, 8] @ torch.arange(6.0), x, torch.ones(8))
    assert torch.isfinite(gradient).all()
    assert (gradient[:, :2].abs().sum((1, 2)) > 0).any(), "x8 follows from x0 and x1"
    assert (gradient[:, 3:] == 0).all(), "rows of derived variables are replaced, not read"


def test_the_mean_of_a_sum_is_the_mean_of_what_it_is_equal_to():
    """Between two whole numbers the chance is divided, so that an objective on the sum has the right slope."""
    goal = Objective("minimize", linear=[2], linear_weights=[1.0])
    instance = Instance([3, 3, 5], (Linear([[0, 1, 2]], [[1, 1, -1]], ["="], [0]),), goal, derived=[(2, 0, 0)])
    batch = collate([instance], chains=5)
    x = random_simplex(batch)
    means = x[:, :2, :3] @ torch.arange(3.0)
    torch.testing.assert_close(energy(derive(x, batch), batch)[:, 0], means.sum(1))


def test_scores_and_penalties_reach_the_sources():
    """A violation of a derived variable is one of those that it follows from, and lambda outweighs what these earn."""
    rules = (Linear([[0, 1, 2]], [[1, 1, -1]], ["="], [0]), Count([[2]], [1], [0], [0]))
    goal = Objective("maximize", linear=[2], linear_weights=[5.0])
    instance = Instance([2, 2, 3], rules, goal, derived=[(2, 0, 0)])
    batch = collate([instance])
    values = torch.tensor([[1, 0, 1]])
    assert violation_scores(values, batch).tolist() == [[1, 1, 1]]
    assert batch.structure.largest_gain.item() == 5.0, "one of two summands"
    assert energy(one_hot(values, batch), batch).item() == pytest.approx(-5 + 5.05, abs=1e-5)


def test_sources_are_those_at_the_end_of_the_line():
    pairs, most = sources(DEFINED.derived, DEFINED.constraints, DEFINED.domains)
    found = [*zip(*pairs.T.tolist(), most.tolist(), strict=True)]
    of = {variable: {b: change for a, b, change in found if a == variable} for variable in range(3, 9)}
    assert of == {
        3: {0: 2, 1: 1}, 4: {0: 2, 1: 1}, 5: {0: 1, 1: 1}, 6: {0: 3, 1: 3, 2: 3}, 7: {2: 2}, 8: {0: 4, 1: 2},
    }  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_no_source_changes_more_than_it_is_said_to(data):
    """Of DEFINED: change one variable, and look at what follows."""
    x = data.draw(st.tuples(*[st.integers(0, 2)] * 3))
    changed = data.draw(st.integers(0, 2))
    y = tuple(data.draw(st.integers(0, 2)) if i == changed else value for i, value in enumerate(x))
    pairs, most = sources(DEFINED.derived, DEFINED.constraints, DEFINED.domains)
    limits = {(a, b): change for (a, b), change in zip(pairs.tolist(), most.tolist(), strict=True)}
    for variable, (before, after) in enumerate(zip(follow(x), follow(y), strict=True)):
        if variable > 2:
            assert abs(before - after) <= limits.get((variable, changed), 0)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_chains_of_definitions(data):
    """Sums of literals and numbers, minima and maxima over all variables before them, against the exact check."""
    base = data.draw(st.integers(1, 3))
    groups, derived, values = [], [], [tuple(range(3))] * base
    for variable in range(base, base + data.draw(st.integers(1, 3))):
        inputs = data.draw(st.lists(st.integers(0, variable - 1), min_size=1, max_size=3, unique=True))
        if data.draw(st.booleans()):
            groups.append(Function(data.draw(st.sampled_from(["min", "max"])), [variable], [inputs]))
        else:
            equals = [data.draw(st.sampled_from([-1, 0, 1])) for _ in inputs]
            sign = data.draw(st.sampled_from([-1, 1]))
            groups.append(Sum([[*inputs, variable]], [[1] * len(inputs) + [sign]], [[*equals, -1]], [2], [2]))
        derived.append((variable, len(groups) - 1, 0))
        values.append(tuple(range(-30, 31)))
    instance = Instance([len(row) for row in values], tuple(groups), values=values, derived=derived)
    batch = collate([instance], chains=9)
    logits = torch.randn(9, instance.size, 61, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 99))))
    for row in decode(batch.lay(logits[:, None]), batch).numpy():
        assert instance.verify(row).satisfied


@pytest.mark.parametrize(
    ("derived", "message"),
    [
        ([(0, 0, 0)], r"constraint 0 of group 0 \(not_equal\) does not say what variable 0 is"),
        ([(0, 1, 0)], r"constraint 0 of group 1 \(sum\) does not say what variable 0 is"),
        ([(1, 2, 0)], r"constraint 0 of group 2 \(sum\) does not say what variable 1 is"),
        ([(1, 2, 7)], "derived variable 1 names constraint 7 of group 2, which is not there"),
        ([(1, 9, 0)], "derived variable 1 names constraint 0 of group 9, which is not there"),
        ([(9, 3, 0)], r"derived names variable 9 outside 0\.\.2"),
        ([(2, 3, 0), (2, 3, 0)], "derived names variable 2 twice"),
        ([(2, 3, 0), (0, 4, 0)], "derived variable 2 follows from variable 0, which comes after it"),
        ([(2, 3)], r"derived must have shape \(m, 3\)"),
        ([(0, 5, 0)], "derived variable 0 needs values in rising order"),
    ],
)
def test_bad_definitions_are_refused(derived, message):
    groups = (
        NotEqual([[0, 1]]),
        Sum([[0, 1]], [[2, 1]], low=[1], high=[1]),  # 2 x0 need not be what is missing
        Sum([[0, 1]], [[1, 1]], low=[1], high=[2]),  # not an equality
        Function("max", [2], [[0, 1]]),
        Table([[0, 1]], [[0, 1], [1, 0]]),
        Function("max", [0], [[1, 2]]),
    )
    with pytest.raises(ValueError, match=message):
        Instance([2, 2, 2], groups, values=[[1, 0], [1, 0], [0, 1]], derived=derived)


def test_verification_does_not_trust_them():
    instance = Instance([2, 2, 3], (Linear([[0, 1, 2]], [[1, 1, -1]], ["="], [0]),), derived=[Derived(2, 0, 0)])
    assert instance.verify([1, 1, 2]).satisfied
    assert not instance.verify([1, 1, 0]).satisfied


def test_one_step_by_hand():
    """The network sees the values that follow from what it sees, not those that were there before."""
    instance = Instance([2, 2, 3], (Linear([[0, 1, 2]], [[1, 1, -1]], ["="], [0]),), derived=[(2, 0, 0)])
    batch = collate([instance])
    logits = batch.certain(torch.tensor([[1, 1, 2]]))
    seen = []

    def denoise(corrupted, block):
        seen.append(corrupted)
        return torch.full_like(corrupted, -9.0), torch.full_like(corrupted, -12.0)

    block = torch.tensor([[True, False, False]])
    step = reverse_step(denoise, batch, logits, block, ChainConfig(), noise(1))
    chance = seen[0][0, 0, :2].softmax(-1)[1].item()
    assert seen[0][0, 2].tolist() == pytest.approx([-10, 10 - 20 * chance, 20 * chance - 10], abs=1e-2)
    assert np.array_equal(decode(step.logits, batch)[0, 2].item(), decode(step.logits, batch)[0, :2].sum().item())
