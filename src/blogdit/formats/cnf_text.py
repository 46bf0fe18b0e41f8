"""DIMACS files of clauses: CNF (SAT) and WCNF (MaxSAT).

A CNF file has a line `p cnf VARIABLES CLAUSES`. A WCNF file has `p wcnf VARIABLES CLAUSES [TOP]` and begins each clause
with its weight, or it has no such line and begins each clause with its weight or with `h`: the form of the MaxSAT
Evaluation since 2022. Clauses end with 0.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.core.objective import Objective
from blogdit.formats.boolean import (
    LARGEST_TOTAL,
    clauses,
    clauses_of,
    constant_terms,
    fixed_literals,
    require_bits,
    rows_of,
    soft_clauses,
    soft_rows,
)
from blogdit.formats.graph_text import refuse_absurd
from blogdit.formats.text import Lines, hinted_offset, naming, plain_suffix

HARD = "h"
OUR_HEADER = "c blogdit wcnf"  # with the number of variables, which the newer form does not have


def looks_like_cnf(start: list[str]) -> bool:
    """A `p` line of one of the two formats before anything but comments, or clauses that begin with `h`."""
    rows = [line.split() for line in start if line.strip()]
    if any(line.startswith(OUR_HEADER) for line in start):
        return True
    first = next((fields for fields in rows if fields[0] != "c"), [])
    if first[:1] == ["p"]:
        return first[1:2] in (["cnf"], ["wcnf"])
    return any(fields[0] == HARD and all(one.lstrip("-").isdecimal() for one in fields[1:]) for fields in rows)


def read_cnf(lines: Lines, name: str) -> Instance:
    """Hard clauses of one literal become givens. Soft clauses of weight 0 are left out."""
    with naming(lines.path):
        return _Reader(lines).instance(name)


class _Reader:
    """A file as it is read: the literals of all clauses, one behind the other, and their lengths and weights."""

    def __init__(self, lines: Lines):
        self.lines = lines
        self.literals, self.lengths, self.weights = array("q"), array("q"), array("q")
        self.variables = self.expected = self.top = -1  # as the 'p' line says
        self.is_weighted, self.offset = False, 0.0
        self.open = 0  # literals of a clause that has not ended
        self.begun = False  # whether a clause has
        for line in lines:
            text = line.strip()
            if text.startswith("%"):  # the end of files of SATLIB
                break
            if not text or text == "c" or text.startswith(("c ", "c\t")):
                self._comment(text)
            elif text[0] == "p":
                self._header(text)
            else:
                self._clauses(text)
        if self.begun:
            raise lines.error("the last clause has no end; expected 0")
        if self.variables < 0 and not self.is_weighted:
            raise lines.error("no 'p cnf VARIABLES CLAUSES' line in the file")
        if self.expected >= 0 and self.expected != len(self.lengths):
            raise lines.error(f"expected {self.expected} clauses as in the 'p' line, got {len(self.lengths)}")

    def _comment(self, text: str) -> None:
        if not text.startswith("c blogdit"):
            return
        self.offset = hinted_offset(text, self.lines) or self.offset
        if text.startswith(OUR_HEADER):
            said = [part.removeprefix("variables=") for part in text.split() if part.startswith("variables=")]
            if said:
                self.variables = self._count(said[0])
            self.is_weighted = True

    def _header(self, text: str) -> None:
        fields = text.split()
        weighted = fields[1:2] == ["wcnf"]
        if self.expected >= 0:
            raise self.lines.error("a second 'p' line; expected one")
        if self.lengths or self.begun:
            raise self.lines.error("a 'p' line behind clauses; expected it first")
        if fields[1:2] not in (["cnf"], ["wcnf"]) or not 4 <= len(fields) <= 4 + weighted:
            wanted = "'p cnf VARIABLES CLAUSES' or 'p wcnf VARIABLES CLAUSES TOP'"
            raise self.lines.error(f"expected {wanted}, got {text[:60]!r}")
        self.is_weighted = weighted
        self.variables, self.expected, *top = (self._count(field) for field in fields[2:])
        self.top = top[0] if top else -1
        self.lines.limits.require("vertices", self.variables, self.lines.path, self.lines.number)

    def _count(self, field: str) -> int:
        if not field.isdecimal() or len(field) > 19 or int(field) >= 1 << 63:
            raise self.lines.error(f"expected a whole number from 0, got {field[:40]!r}")
        return int(field)

    def _clauses(self, text: str) -> None:
        """The clauses of a line, which may begin in an earlier line and end in a later one."""
        fields = text.split()
        if self.expected < 0 and not self.is_weighted:
            if plain_suffix(self.lines.path) == ".cnf":
                raise self.lines.error(f"expected 'p cnf VARIABLES CLAUSES' first, got {text[:60]!r}")
            self.is_weighted = True
        for field in fields:
            if self.is_weighted and not self.begun:
                self.weights.append(self._weight(field))
                self.begun = True
                continue
            try:
                literal = int(field)
            except ValueError:
                raise self.lines.error(f"expected literals that end with 0, got {field[:40]!r}") from None
            self.begun = literal != 0
            if literal:
                if abs(literal) > self.variables >= 0:
                    raise self.lines.error(f"expected variables 1..{self.variables}, got {literal}")
                self.lines.limits.require("vertices", abs(literal), self.lines.path, self.lines.number)
                self.literals.append(literal)
                self.open += 1
            else:
                self.lengths.append(self.open)
                self.open = 0

    def _weight(self, field: str) -> int:
        """-1 for a clause that must hold."""
        if field == HARD and self.expected < 0:
            return -1
        if not field.isdecimal() or len(field) > 19 or int(field) >= 1 << 63:
            wanted = "a whole weight" if self.expected >= 0 else "a whole weight or 'h'"
            raise self.lines.error(f"expected {wanted} before a clause, got {field[:40]!r}")
        return -1 if 0 <= self.top <= int(field) else int(field)

    def instance(self, name: str) -> Instance:
        literals, lengths = np.array(self.literals, np.int64), np.array(self.lengths, np.int64)
        size = self.variables if self.variables >= 0 else int(np.abs(literals).max(initial=0))
        if not size:
            raise InputError("no variable in the file; expected clauses", self.lines.path)
        refuse_absurd(size, len(lengths), self.lines.path)
        weights = np.array(self.weights, np.int64) if self.is_weighted else np.full(len(lengths), -1)
        if weights.max(initial=0) > LARGEST_TOTAL or weights[weights > 0].sum() > LARGEST_TOTAL:
            raise ValueError(f"the weights add up to more than {LARGEST_TOTAL}; expected less, to be exact")
        ends = np.cumsum(lengths)
        units = literals[(ends - 1)[(weights < 0) & (lengths == 1)]]
        # The first unit clause of a variable decides; one that contradicts it stays a clause.
        _, first = np.unique(np.abs(units), return_index=True)
        value = np.zeros(size + 1, np.int64)
        value[np.abs(units[first])] = np.sign(units[first])
        is_given = (weights < 0) & (lengths == 1)
        is_given[is_given] = value[np.abs(units)] == np.sign(units)
        hard, soft = (weights < 0) & ~is_given, weights > 0
        owner = np.repeat(np.arange(len(lengths)), lengths)
        unary, unary_weights = constant_terms(self.offset)
        groups = [(clauses(literals[part[owner]], lengths[part]), weights[part]) for part in (hard, soft) if part.any()]
        objective = None
        if self.is_weighted:
            objective = Objective("minimize", unary, unary_weights, soft=groups[-1:] if soft.any() else ())
        return Instance(
            np.full(size, 2, np.int64),
            (groups[0][0],) if hard.any() else (),
            objective,
            {abs(unit) - 1: int(unit > 0) for unit in units[np.sort(first)].tolist()},
            "maxsat" if self.is_weighted else "sat",
            name,
            labels=range(1, size + 1),
        )


def cnf_lines(instance: Instance) -> list[str]:
    """The file of an instance on bits whose constraints are clauses, or can be said by a few."""
    if instance.objective is not None:
        raise ValueError("a cnf file has no objective; use .wcnf")
    hard = _hard_clauses(instance, "cnf")
    return [f"p cnf {instance.size} {len(hard)}", *map(_text, hard)]


def wcnf_lines(instance: Instance) -> list[str]:
    """The form without a `p` line. A constant of the objective goes into a comment."""
    hard = _hard_clauses(instance, "wcnf")
    soft, offset = soft_clauses(instance, "wcnf")
    for weight, row in soft_rows(instance, "wcnf"):
        found = clauses_of(row)
        if found is None or len(found) > 1:
            raise ValueError("a wcnf file holds soft clauses, and a soft constraint is none; use .json or .opb")
        soft += [(weight, clause) for clause in found]
    constant = f" offset={offset}" if offset else ""
    weighted = [(HARD, clause) for clause in hard] + [(str(weight), clause) for weight, clause in soft]
    first = f"{OUR_HEADER} variables={instance.size}{constant}"
    return [first, *(f"{weight} {_text(clause)}" for weight, clause in weighted)]


def _hard_clauses(instance: Instance, form: str) -> list[list[int]]:
    require_bits(instance, form)
    found = [[literal] for literal in fixed_literals(instance)]
    for group in instance.constraints:
        for rows in rows_of(group, instance, form):
            for row in rows:
                some = clauses_of(row)
                if some is None:
                    raise ValueError(f"a {form} file holds clauses, and a constraint ({group.kind}) is none; use .opb")
                found += some
    return found


def _text(clause: Iterable[int]) -> str:
    return " ".join([*map(str, clause), "0"])
