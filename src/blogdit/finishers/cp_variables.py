"""Variables of an instance in a model of OR-Tools' CP-SAT.

A variable with few values becomes one Boolean per value (a single Boolean if there are two values). On graph colouring
this is many times faster than integer variables. Variables with many values become integer variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blogdit.core.constraints import IntArray
from blogdit.core.instance import Instance
from blogdit.finishers.tasks import OutOfTime

MOST_LITERALS = 64  # values; with more of them one integer variable is smaller and faster than a Boolean per value
BETWEEN_LOOKS = 512  # constraints and variables added between two looks at the clock, about 2 ms


class Variables:
    """A CP-SAT model with the variables of an instance, and the ways to speak of them.

    `over` is asked now and then whether to give up; then `OutOfTime` is raised.
    """

    def __init__(self, instance: Instance, over: Callable[[], bool] = lambda: False):
        from ortools.sat.python import cp_model

        self.model = cp_model.CpModel()
        self.instance, self.domains = instance, instance.domains
        self.sizes: list[int] = instance.domain_sizes.tolist()
        self.over, self.added = over, 0
        self.never = self.model.new_constant(0)
        self.integers: dict[int, Any] = {}  # variable -> its integer variable, if it has one
        self.numbers: dict[int, Any] = {}  # variable -> the number that its value means, as a linear expression
        self.literals: dict[tuple[int, int], Any] = {}  # (variable, value) -> true where the variable has the value
        # others, with what they are for values and the numbers that these mean
        self.auxiliary: list[tuple[Any, Callable[[IntArray, IntArray], int]]] = []
        for variable, size in enumerate(self.sizes):
            self._declare(variable, size, instance.givens.get(variable))

    def values(self, solver: Any) -> IntArray:
        """The solution that CP-SAT has found, as values of the instance."""
        found = np.zeros(len(self.sizes), np.int64)
        for variable, size in enumerate(self.sizes):
            if size > MOST_LITERALS:
                found[variable] = solver.value(self.integers[variable])
            else:
                has = (value for value in range(size) if solver.boolean_value(self.literals[variable, value]))
                found[variable] = next(has)
        return found

    def _hint_variables(self, values: IntArray) -> None:
        for variable, whole in self.integers.items():
            self.model.add_hint(whole, int(values[variable]))
        for (variable, value), literal in self.literals.items():
            size = self.sizes[variable]
            is_constant = size <= MOST_LITERALS and (size == 1 or self.instance.is_given[variable])
            if not is_constant and not (size == 2 and value == 0):  # value 0 of two is the negation of value 1
                self.model.add_hint(literal, bool(values[variable] == value))
        numbers = self.domains.numbers(values)
        for one, value_of in self.auxiliary:
            self.model.add_hint(one, int(value_of(values, numbers)))

    def _look(self) -> None:
        """Give up if the time is over."""
        self.added += 1
        if self.added % BETWEEN_LOOKS == 0 and self.over():
            raise OutOfTime

    def _rows(self, array: IntArray) -> Iterator[Any]:
        """Rows as lists, a few at a time: lists of all rows of a large graph would take a second to make."""
        for first in range(0, len(array), BETWEEN_LOOKS):
            for row in array[first : first + BETWEEN_LOOKS].tolist():
                self._look()
                yield row

    def _declare(self, variable: int, size: int, given: int | None) -> None:
        self._look()
        if size > MOST_LITERALS:
            low, high = (0, size - 1) if given is None else (given, given)
            self.integers[variable] = self.model.new_int_var(low, high, f"x{variable}")
        elif given is not None or size == 1:
            always = self.model.new_constant(1)
            for value in range(size):
                self.literals[variable, value] = always if value == (given or 0) else self.never
        elif size == 2:
            literal = self.model.new_bool_var(f"x{variable}")
            self.literals[variable, 0], self.literals[variable, 1] = ~literal, literal
        else:
            literals = [self.model.new_bool_var(f"x{variable}={value}") for value in range(size)]
            self.model.add_exactly_one(literals)
            self.literals |= {(variable, value): literal for value, literal in enumerate(literals)}

    def _literal(self, variable: int, value: int) -> Any:
        """True exactly where the variable takes the value."""
        if value >= self.sizes[variable]:
            return self.never
        if (variable, value) not in self.literals:
            literal = self.model.new_bool_var(f"x{variable}={value}")
            self.model.add(self.integers[variable] == value).only_enforce_if(literal)
            self.model.add(self.integers[variable] != value).only_enforce_if(~literal)
            self.literals[variable, value] = literal
        return self.literals[variable, value]

    def _expression(self, variable: int) -> Any:
        """The variable's value as a linear expression."""
        if variable in self.integers:
            return self.integers[variable]
        return sum(value * self.literals[variable, value] for value in range(1, self.sizes[variable]))

    def _integer(self, variable: int) -> Any:
        """The variable as an integer variable, for constraints that take nothing else."""
        if variable not in self.integers:
            whole = self.model.new_int_var(0, self.sizes[variable] - 1, f"x{variable}")
            self.model.add(whole == self._expression(variable))
            self.integers[variable] = whole
        return self.integers[variable]

    def _number(self, variable: int) -> Any:
        """The number that the variable's value means, as a linear expression."""
        if variable not in self.numbers:
            self.numbers[variable] = self._make_number(variable)
        return self.numbers[variable]

    def _make_number(self, variable: int) -> Any:
        if self.domains.values is None:
            return self._expression(variable)
        numbers = self.domains.of(variable).tolist()
        if self._small(variable):
            return sum((n * self.literals[variable, value] for value, n in enumerate(numbers)), self.never)
        step = numbers[1] - numbers[0] if len(numbers) > 1 else 0
        if numbers == [numbers[0] + step * value for value in range(len(numbers))]:
            return self.integers[variable] * step + numbers[0]
        number = self.model.new_int_var(min(numbers), max(numbers), f"number of x{variable}")
        self.model.add_element(self.integers[variable], numbers, number)
        self.auxiliary.append((number, lambda _, taken: taken[variable]))
        return number

    def _small(self, *variables: int) -> bool:
        """Whether all of these have a Boolean per value."""
        return all(self.sizes[variable] <= MOST_LITERALS for variable in variables)

    def _unequal(self, i: int, j: int, unless: tuple[Any, ...] = ()) -> None:
        """x_i != x_j, or one of the literals `unless`."""
        if self._small(i, j):
            for value in range(min(self.sizes[i], self.sizes[j])):
                self.model.add_bool_or(~self._literal(i, value), ~self._literal(j, value), *unless)
        else:
            different = self.model.add(self._expression(i) != self._expression(j))
            if unless:
                different.only_enforce_if(*(~literal for literal in unless))
