"""What a network is told about constraints, against enumeration: rules hold where the constraints do."""

from __future__ import annotations

import itertools

import pytest
import torch

import blogdit
from blogdit.core.constraints import FAR, AllDifferent, Conflict, Function, NotEqual, Sum, Table
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective
from blogdit.method.batch import collate
from blogdit.method.literals import Literals
from blogdit.method.rules import CHOSEN, LARGEST, SMALLEST, SUM, TUPLE
from random_instances import Draw, broken


def literals_of(*instances: Instance) -> Literals:
    literals = collate(instances).with_literals().literals
    assert literals is not None
    return literals


def assignments(instance: Instance):
    """All that agree with the givens."""
    choices = [
        [instance.givens[i]] if i in instance.givens else range(size) for i, size in enumerate(instance.domain_sizes)
    ]
    return itertools.product(*choices)


def meets(literals: Literals, row: int, true: set[int]) -> bool:
    """Whether true literals (places) are open ones, and every rule with bounds holds."""
    places = literals.place[row].tolist()
    open_ = {place for place, real in zip(places, literals.real[row].tolist(), strict=True) if real}
    if not true <= open_:
        return False
    for factor in range(literals.kind.shape[1]):
        members, amounts = literals.members.of(row, factor), literals.members.amounts_of(row, factor).tolist()
        total = sum(amount for member, amount in zip(members, amounts, strict=True) if places[member] in true)
        low, high = literals.bounds[row, factor].tolist()
        if members and not low - 1e-4 <= total <= high + 1e-4:
            return False
    for literal in range(len(places)):
        if places[literal] in true and any(places[other] in true for other in literals.excluded.of(row, literal)):
            return False
    return True


def is_two_sided(group: Sum) -> bool:
    return bool(((group.low > -FAR) & (group.high < FAR)).any())


def hard_part(seed: int) -> Instance:
    """A random instance with what bounds can say: neither tables nor functions nor sums reified between two."""
    instance = Draw(seed).instance()
    kept = [
        group
        for group in instance.constraints
        if not isinstance(group, (Table, Function)) and not (getattr(group, "exactly", False) and is_two_sided(group))
    ]
    return Instance(instance.domain_sizes, kept, givens=instance.givens, values=instance.values)


@pytest.mark.parametrize("seed", range(60))
def test_rules_hold_exactly_where_the_constraints_do(seed):
    instance = hard_part(seed)
    literals = literals_of(instance)
    width = int(instance.domain_sizes.max())
    means = [instance.domains.of(i) for i in range(instance.size)]
    for x in itertools.islice(assignments(instance), 400):
        true = {i * width + value for i, value in enumerate(x) if i not in instance.givens}
        numbers = [means[i][value] for i, value in enumerate(x)]
        valid = not broken(instance.constraints, x, numbers)
        if valid:
            assert meets(literals, 0, true)
        # A rule without an open literal is left out: where givens alone break it, nothing is told.
        elif literals.real[0].any() and meets(literals, 0, true):
            assert any(
                set(group.scope(index).tolist()) <= set(instance.givens)
                for group in instance.constraints
                for index in range(len(group))
            )


def rules_of(literals: Literals, row: int = 0) -> list[tuple[int, dict[int, float]]]:
    """Kind, and amounts by place, of each factor of an instance."""
    places, found = literals.place[row].tolist(), []
    for factor, kind in enumerate(literals.kind[row].tolist()):
        members, amounts = literals.members.of(row, factor), literals.members.amounts_of(row, factor).tolist()
        amounts = {places[m]: round(amount, 4) for m, amount in zip(members, amounts, strict=True)}
        if amounts:
            found.append((kind, amounts))
    return found


def test_sums_come_in_one_form():
    """3 x + 2 y >= 7 of x in 0..2 and y in -1..1: y as low as can be adds -2, so 9 are wanted of 6 + 4."""
    total = Sum([[0, 1]], weights=[[3, 2]], low=[7])
    instance = Instance([3, 3], [total], values=[[0, 1, 2], [-1, 0, 1]])
    literals = literals_of(instance)
    (found,) = [amounts for kind, amounts in rules_of(literals) if kind == SUM]
    assert found == {1: 0.5, 2: 1.0, 4: round(2 / 6, 4), 5: round(4 / 6, 4)}
    (number,) = (literals.kind[0] == SUM).nonzero().flatten().tolist()
    assert literals.bounds[0, number].tolist() == pytest.approx([9 / 6, float("inf")])
    assert float(literals.share[0, number]) == pytest.approx(6 / 10)


def test_a_sum_that_always_holds_is_no_rule():
    instance = Instance([2, 2, 2], [Sum([[0, 1, 2]], low=[1])], givens={0: 1})
    assert not any(kind == SUM for kind, _ in rules_of(literals_of(instance, Instance([2], [Sum([[0]], low=[1])]))))


def test_a_condition_lifts_the_bound():
    """b -> x + y >= 2 is x + y + 2 [not b] >= 2."""
    instance = Instance([2, 2, 2], [Sum([[0, 1]], low=[2], when=[(2, 1)])])
    (found,) = [amounts for kind, amounts in rules_of(literals_of(instance)) if kind == SUM]
    assert found == {1: 0.5, 3: 0.5, 4: 1.0}


def test_a_tuple_that_a_given_rules_out_is_no_rule():
    table = Table([[0, 1, 2]], [[0, 0, 0], [0, 1, 1], [1, 1, 0]])
    found = rules_of(literals_of(Instance([2, 2, 2], [table], givens={0: 0})))
    assert [set(amounts) for kind, amounts in found if kind == TUPLE] == [{2, 4}, {3, 5}]


def test_functions_know_what_values_mean():
    largest, chosen = Function("max", [2], [[0, 1]]), Function("element", [2], [[3, 0, 1]])
    found = rules_of(literals_of(Instance([2, 2, 2, 2], [largest, chosen])))
    assert [amounts for kind, amounts in found if kind == LARGEST] == [{0: 0.5, 1: 1, 2: 0.5, 3: 1, 4: -0.5, 5: -1}]
    assert [amounts for kind, amounts in found if kind == CHOSEN] == [
        {0: 0.5, 1: 1, 4: -0.5, 5: -1, 6: 1},
        {2: 0.5, 3: 1, 4: -0.5, 5: -1, 7: 1},
    ]
    assert not any(kind == SMALLEST for kind, _ in found)


def test_terms_over_pairs_couple_literals():
    """The ends of an edge of a cut repel each other, and what earns together attracts; a given makes it a cost."""
    goal = Objective("maximize", differ=[[0, 1]], differ_weights=[2], pairwise=[[1, 2, 0, 1]], pairwise_weights=[4])
    literals = literals_of(Instance([2, 2, 2], [], goal))
    couples = {
        (one, other): amount
        for one in range(literals.place.shape[1])
        for other, amount in zip(literals.coupled.of(0, one), literals.coupled.amounts_of(0, one).tolist(), strict=True)
    }
    one_way = {(0, 2): 0.5, (1, 3): 0.5, (2, 5): -1.0}
    assert couples == one_way | {(b, a): amount for (a, b), amount in one_way.items()}
    fixed = literals_of(Instance([2, 2, 2], [], goal, givens={0: 1}))
    assert fixed.place[0, :2].tolist() == [2, 3]
    assert fixed.about[0, :2, 0].tolist() == [0, 1]


def test_soft_pairs_rule_nothing_out():
    soft = Objective("minimize", soft=[(NotEqual([[0, 1]]), 1), (Conflict([[0, 2]], [[0, 0]]), 4)])
    instance = Instance([2, 2, 2], [], soft, givens={0: 0})
    assert int(literals_of(instance).real.sum()) == 4


def test_costs_are_what_a_value_costs_more_than_the_cheapest():
    goal = Objective("minimize", unary=[[0, 0], [0, 1], [1, 1]], unary_weights=[5, 3, 8])
    literals = literals_of(Instance([2, 2], [], goal))
    assert literals.about[0, :4, 0].tolist() == pytest.approx([2 / 8, 0, 0, 1])


def test_company_changes_nothing():
    """An instance has the same output alone and beside five others, whatever constraints and domains these have."""
    network = blogdit.load("general").denoiser.eval()
    rng = torch.Generator().manual_seed(0)
    for start in range(0, 90, 6):
        instances = [Draw(seed).instance() for seed in range(start, start + 6)]
        logits = [torch.randn(one.size, 4, generator=rng) for one in instances]
        blocks = [torch.rand(one.size, generator=rng) < 0.5 for one in instances]
        together = outputs(network, instances, logits, blocks)
        for place, one in enumerate(instances):
            (alone,) = outputs(network, [one], logits[place : place + 1], blocks[place : place + 1])
            inside = torch.arange(alone.shape[1]) < torch.tensor(one.domain_sizes)[:, None]
            company = together[place][: one.size, : alone.shape[1]]
            assert torch.allclose(alone[: one.size][inside], company[inside], atol=1e-3), start + place


def outputs(network, instances, logits, blocks):
    batch = collate(instances)
    x = torch.zeros(1, batch.size, batch.variables, batch.values)
    hidden = torch.zeros(1, batch.size, batch.variables, dtype=torch.bool)
    for place, (own, block) in enumerate(zip(logits, blocks, strict=True)):
        x[0, place, : len(own), : min(4, batch.values)] = own[:, : batch.values]
        hidden[0, place, : len(block)] = block
    with torch.no_grad():
        mean, _ = network.on(batch)(batch.lay(x), batch.lay(hidden) & batch.free)
    return batch.per_instance(mean)[0]


def test_an_index_that_is_given_leaves_one_choice():
    chosen = Function("element", [2], [[3, 0, 1]])
    found = rules_of(literals_of(Instance([2, 2, 2, 2], [chosen], givens={3: 1})))
    assert [set(amounts) for kind, amounts in found if kind == CHOSEN] == [{2, 3, 4, 5}]


def test_a_soft_rule_counts_what_is_given():
    """Beside a given 1, every further 1 costs."""
    goal = Objective("minimize", soft=[(AllDifferent([[0, 1, 2]]), 1)])
    literals = literals_of(Instance([3, 3, 3], [], goal, givens={0: 1}))
    highest = {
        frozenset(places): literals.bounds[0, factor, 1].item()
        for factor, (_, places) in enumerate(rules_of(literals))
        if len({place // 3 for place in places}) > 1
    }
    assert highest == {frozenset({3, 6}): 1, frozenset({4, 7}): 0, frozenset({5, 8}): 1}


def test_large_amounts_are_not_rounded():
    """2^30 x + 2^30 y + z <= 2^31 breaks where all three are 1."""
    heavy = Sum([[0, 1, 2]], weights=[[1 << 30, 1 << 30, 1]], high=[1 << 31])
    assert any(kind == SUM for kind, _ in rules_of(literals_of(Instance([2, 2, 2], [heavy]))))


def test_a_literal_is_in_a_rule_once():
    repeated = NotEqual([[0, 1], [0, 1]])
    literals = literals_of(Instance([2, 2], [repeated]))
    assert literals.excluded.lengths[0, :4].tolist() == [1, 1, 1, 1]
    own = Sum([[0, 1]], low=[1], when=[(0, 1)])
    literals = literals_of(Instance([2, 2], [own]))
    for factor in range(literals.kind.shape[1]):
        members = literals.members.of(0, factor)
        assert len(set(members)) == len(members)


def test_an_instance_without_variables():
    assert not literals_of(Instance([])).real.any()
