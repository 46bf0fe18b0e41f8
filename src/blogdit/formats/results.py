"""Results that leave the package: a list of them, with a table for pandas and for notebooks."""

from __future__ import annotations

from typing import Any, SupportsIndex, overload

from blogdit.core.instance import label_text
from blogdit.core.result import Result
from blogdit.formats.solutions import record
from blogdit.problems.pictures import html_of, html_table

MOST_SHOWN = 5  # results that a notebook shows in full; of more, a line each


class Results(list[Result]):
    """A list of results in every respect, which can also be a table."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> Results: ...
    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Results(found) if isinstance(index, slice) else found

    def to_pandas(self, answers: bool = False) -> Any:
        """A DataFrame with a row for each result and the columns of its record; with `answers` a row for each variable,
        with its name and what its value is called."""
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("no module 'pandas'; expected pip install 'blogdit[pandas]'") from error
        if answers:
            rows = [
                (result.instance.name, label_text(label), value)
                for result in self
                for label, value in result.answer.items()
            ]
            return pandas.DataFrame(rows, columns=["instance", "variable", "value"])
        return pandas.DataFrame([_flat(result) for result in self], columns=COLUMNS)

    def _repr_html_(self) -> str:
        if len(self) <= MOST_SHOWN:
            return "".join(map(html_of, self))
        shown = ("instance", "status", "objective", "violations", "found_by", "steps", "seconds")
        rows = [["" if row[name] is None else str(row[name]) for name in shown] for row in map(_flat, self)]
        return html_table(shown, rows)


COLUMNS = (
    "instance", "problem", "status", "objective", "violations", "found_by", "proved_by", "sampler_objective",
    "sampler_violations", "steps", "seconds", "seed", "model", "values",
)  # fmt: skip


def _flat(result: Result) -> dict[str, Any]:
    """The record of a result, without objects in it."""
    data = record(result)
    sampler = data.pop("sampler") or {}
    return data | {f"sampler_{name}": sampler.get(name) for name in ("objective", "violations")}
