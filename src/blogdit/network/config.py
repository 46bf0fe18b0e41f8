"""The shape of a network, and what it is told about a batch; shared by the parts that make up a denoiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from blogdit.core.arrays import whole_number
from blogdit.network.attention import Bias

LOG_VARIANCE_RANGE = (-12.0, 6.0)
MOST_LAYERS = 1024  # far more than any network here has; a file may ask for anything
MEAN_SCALE = 4.0  # logits are of the size of sigma; the last layer starts with outputs of size 1


@dataclass(frozen=True)
class DenoiserConfig:
    """The size and kind of a network; stored with its weights."""

    dim: int = 128
    heads: int = 3
    head_dim: int = 128
    layers: int = 7
    ffn_factor: int = 2
    relation: Literal["learned", "fixed", "neighbours"] = "learned"
    relation_bias: float = -1.0  # c at the start ("learned") or for good ("fixed")
    signed: bool = False  # relations have weights: attention follows their size, heads are split by their sign
    edge_features: bool = False  # learn how the kinds of relations bias attention; slower
    position_dims: int = 0  # dimensions of the grid that variables lie on; 0: variables have no place
    # "literals" sees constraints (literal.py), "axis" pairs of variables (value_axis.py); "table" is an ablation.
    values: Literal["axis", "literals", "table"] = "axis"
    # What "literals" see: "different" all-different constraints alone; "every" all kinds, with amounts, bounds, costs
    # and pairs.
    sees: Literal["different", "every"] = "different"
    loops: int = 1  # how often the layers of "literals" run, with the same weights
    max_values: int = 0  # of a table

    def __post_init__(self) -> None:
        for name in ("dim", "heads", "head_dim", "layers", "ffn_factor", "loops"):
            most = MOST_LAYERS if name in ("layers", "loops") else None
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1, most))
        if self.relation not in ("learned", "fixed", "neighbours"):
            raise ValueError(f"relation must be learned, fixed or neighbours, got {self.relation!r}")
        if self.values not in ("axis", "literals", "table"):
            raise ValueError(f"values must be axis, literals or table, got {self.values!r}")
        if self.sees not in ("different", "every"):
            raise ValueError(f"sees must be different or every, got {self.sees!r}")
        if self.relation_bias > 0:
            raise ValueError(f"relation_bias must not be positive, got {self.relation_bias}")
        if self.values == "table" and self.max_values < 1:
            raise ValueError(f"max_values must be at least 1 with a table of values, got {self.max_values}")
        if self.position_dims and self.dim % (2 * self.position_dims):
            raise ValueError(f"dim must be a multiple of {2 * self.position_dims} for {self.position_dims} positions")

    @property
    def relates(self) -> bool:
        """Whether it looks at pairs of related variables. Literals are told about constraints themselves."""
        return self.values != "literals"

    @property
    def least_weights(self) -> int:
        """What the largest matrices hold; every network has more."""
        attention = 0 if self.values == "literals" else 3 * self.heads * self.head_dim
        return self.dim * (self.layers * (self.ffn_factor * self.dim + attention) + self.max_values)


class Context(NamedTuple):
    """What the network needs of a batch, computed once for many steps."""

    base: Tensor  # (R or 1, M, dim) positions and givens
    bias: Bias
    domain: Tensor | None  # (M, K); None: all variables have all values
    features: Tensor  # (M, K, F)
