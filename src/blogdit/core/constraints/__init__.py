"""The constraint kinds, each with its exact check.

Constraints come in groups: one object holds every constraint of a kind, as arrays (a graph with a million edges
is one `NotEqual` with a (1000000, 2) array). A group is validated by name when it is built and is read-only.

The checks share nothing with the relaxed energy that guides the search; they need numpy alone.

| file | kinds |
|---|---|
| `pairs.py` | `NotEqual`, `Conflict` |
| `different.py` | `AllDifferent` |
| `sums.py` | `Sum` (clauses, literals with weights, implications, reified sums), `Linear`, `Count` |
| `functions.py` | `Table`, `Function` (minimum, maximum, element) |
"""

from blogdit.core.arrays import FloatArray as FloatArray
from blogdit.core.arrays import IntArray as IntArray
from blogdit.core.constraints.base import FAR as FAR
from blogdit.core.constraints.base import LARGEST_SEED as LARGEST_SEED
from blogdit.core.constraints.base import Constraint as Constraint
from blogdit.core.constraints.base import Scopes as Scopes
from blogdit.core.constraints.different import AllDifferent as AllDifferent
from blogdit.core.constraints.functions import Function as Function
from blogdit.core.constraints.functions import Table as Table
from blogdit.core.constraints.pairs import Conflict as Conflict
from blogdit.core.constraints.pairs import NotEqual as NotEqual
from blogdit.core.constraints.sums import Count as Count
from blogdit.core.constraints.sums import Linear as Linear
from blogdit.core.constraints.sums import Sum as Sum
