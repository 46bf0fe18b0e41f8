"""A contract for every constraint kind of the core: each place that has to know a kind knows it, by the file's name.

`CONTRIBUTING.md`, "Add a constraint kind", lists the same files.
"""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import blogdit
from blogdit.core import constraints as core
from blogdit.core.instance import Instance
from blogdit.formats import json_text
from blogdit.method import penalties, tensors
from blogdit.method.batch import collate
from blogdit.method.blocks import _incidence
from blogdit.method.energy import discrete_energy, energy, one_hot, violation_scores
from blogdit.method.relations import count_pairs, relation_list
from blogdit.method.tensors import normal_form
from blogdit.method.terms import Terms
from helpers import DOMAINS, KINDS, enumerated

ROOT = Path(__file__).parent.parent
SOURCE = "src/blogdit"
CP_SAT = f"{SOURCE}/finishers/cp_model.py"


def kinds() -> list[type[core.Constraint]]:
    """All constraint classes that the core defines, at any depth."""
    found, todo = [], [core.Constraint]
    while todo:
        for kind in todo.pop().__subclasses__():
            todo.append(kind)
            if kind.__module__.startswith("blogdit.core") and not inspect.isabstract(kind):
                found.append(kind)
    return sorted(found, key=lambda kind: kind.kind)


def names(file: str) -> set[str]:
    """The names and attributes that the code of a file uses."""
    nodes = list(ast.walk(ast.parse((ROOT / file).read_text())))
    used = {node.id for node in nodes if isinstance(node, ast.Name)}
    return used | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def missing(kind: type[core.Constraint]) -> list[str]:
    """The files that do not know a kind."""
    row = f"| `{kind.kind}` |"
    known = {
        f"{SOURCE}/__init__.py": kind.__name__ in blogdit.__all__,
        f"{SOURCE}/formats/json_text.py": json_text.KINDS.get(kind.kind) is kind,
        "docs/formats.md": row in (ROOT / "docs/formats.md").read_text(),
        f"{SOURCE}/method/terms.py": kind.kind in {field.name for field in fields(Terms)},
        f"{SOURCE}/method/tensors.py": kind in tensors.KINDS,
        f"{SOURCE}/method/penalties.py": kind.kind in penalties.KINDS,
        f"{SOURCE}/method/blocks.py": kind.kind in names(f"{SOURCE}/method/blocks.py"),
        CP_SAT: kind.__name__ in names(CP_SAT),
        "tests/test_constraints.py": kind.kind in KINDS,  # a strategy; tests/small_instances.py lists them
    }
    return [file for file, knows in known.items() if not knows]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.kind)
def test_every_place_knows_the_kind(kind):
    assert not missing(kind), f"{kind.__name__} is missing in: {', '.join(missing(kind))}"


def test_every_file_is_named_in_the_checklist():
    """Whoever adds a kind finds all files that it touches in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    steps = text[text.index("## Add a constraint kind") : text.index("## Add a format")]
    for file in [f"{SOURCE}/core/constraints/", *missing(MadeUp)]:
        assert f"`{file}`" in steps, file


# -- what it means to know a kind --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_energies_are_zero_exactly_where_it_holds(kind, data):
    """On every assignment: the relaxed energy in both forms, and the discrete one, against the exact check."""
    domains = data.draw(DOMAINS)
    group, _ = data.draw(KINDS[kind](domains))
    batch, values, every = enumerated(Instance(np.array(domains), (group,)))
    violated = torch.tensor([bool(group.violations(row).any()) for row in every])
    x = one_hot(values, batch)
    found = {form: energy(x, batch, form=form)[:, 0] for form in ("counts", "pairs")}
    found["discrete"] = discrete_energy(values, batch)[0][:, 0]
    for form, amounts in found.items():
        assert (amounts >= 0).all(), form
        assert torch.equal(amounts > 0, violated), form
    # Who takes part in a violated constraint is named, nobody else.
    assert torch.equal(violation_scores(values, batch).sum(1) > 0, violated)


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_variables_of_a_constraint_are_related(kind, data):
    """The network and the block rule "related" see which variables a constraint joins."""
    domains = data.draw(DOMAINS)
    group, _ = data.draw(KINDS[kind](domains))
    instance = Instance(np.array(domains), (group,))
    source, target, features = relation_list(instance)
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    expected = {(int(i), int(j)) for c in range(len(group)) for i in group.scope(c) for j in group.scope(c) if i != j}
    assert pairs == expected
    assert (features != 0).any(1).all()
    assert (count_pairs(instance) > 0) == bool(expected)
    variables, _, present, counts = _incidence(collate([instance]))
    members = {int(i) for c in range(len(group)) for i in group.scope(c)}
    assert set(variables[present].tolist()) == members
    assert sum(counts) == sum(len(simple) for simple, _ in normal_form(instance))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_general_model_is_told(kind):
    """In `method/rules.py` or `neighbours.py`. Not of every constraint: some say nothing, or cannot hold."""
    differs = []

    def told(domains, *groups):
        found = collate([Instance(np.array(domains), groups)]).with_literals().literals
        parts = found.place, found.kind, found.bounds, found.members.members, found.excluded.members
        return [part.tolist() for part in parts]

    @settings(max_examples=25, deadline=None)
    @given(st.data())
    def look(data):
        domains = data.draw(DOMAINS)
        group, _ = data.draw(KINDS[kind](domains))
        differs.append(told(domains, group) != told(domains))

    look()
    assert any(differs), f"{kind}: its rules are missing in src/blogdit/method/rules.py"


@pytest.mark.parametrize("kind", sorted(KINDS))
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_it_survives_json(kind, data):
    domains = data.draw(DOMAINS)
    group, _ = data.draw(KINDS[kind](domains))
    written = json_text.to_json(Instance(np.array(domains), (group,)))
    assert json_text.to_json(json_text.from_json(written)) == written


# -- a kind that nobody knows ------------------------------------------------------------------------------------------


class MadeUp(core.Constraint):
    """x_i = 0, for each variable i of a list."""

    kind = "made_up"

    def __init__(self, variables):
        self.variables = np.asarray(variables)

    def __len__(self):
        return len(self.variables)

    def scope(self, index):
        return self.variables[index : index + 1]

    @property
    def members(self):
        return core.Scopes(self.variables[:, None])

    def violations(self, values, numbers=None):
        return (values[self.variables] != 0).astype(np.int64)

    def validate(self, domains):
        pass


def test_a_kind_that_is_missing_is_told_by_file():
    assert missing(MadeUp) == [
        f"{SOURCE}/__init__.py", f"{SOURCE}/formats/json_text.py", "docs/formats.md", f"{SOURCE}/method/terms.py",
        f"{SOURCE}/method/tensors.py", f"{SOURCE}/method/penalties.py", f"{SOURCE}/method/blocks.py", CP_SAT,
        "tests/test_constraints.py",
    ]  # fmt: skip


@pytest.mark.parametrize("beside", [(), (core.NotEqual([[0, 1]]),)])
def test_a_kind_without_a_tensor_form_is_refused(beside):
    """Its energy would be 0 whatever is violated, and the chain would never hear of it."""
    instance = Instance(np.array([2, 2]), (*beside, MadeUp([0, 1])))
    with pytest.raises(TypeError, match=r"constraint MadeUp \(kind 'made_up'\) .* blogdit/method/tensors\.py"):
        collate([instance])
