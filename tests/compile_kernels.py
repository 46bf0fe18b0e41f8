"""Compiles every kernel for a GPU of compute capability 9.0, which takes no GPU. Run by test_kernels.py."""

from __future__ import annotations

import time

from triton import compile as compile_kernel
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from blogdit.core.clock import working_time
from blogdit.finishers import annealing_kernel, swaps_kernel, tabu_kernel
from blogdit.network.kernels import axis as axis_kernels
from blogdit.network.kernels import dense as dense_kernels
from blogdit.network.kernels import factors, fused, streams
from blogdit.network.kernels import neighbours as kernels
from blogdit.network.runtime import stand_still_while_compiling

HALF, FLOAT, INT = "*bf16", "*fp32", "*i32"
WEIGHTS = dict.fromkeys(("norm_weight", "norm_bias", "matrix_ptr", "qkv_ptr", "h_ptr"), HALF)
SIZES = dict.fromkeys(
    ("count", "groups", "variables", "edges", "values", "tiles", "all_tiles", "instances", "width", "words"), "i32"
)
TYPES = {
    **dict.fromkeys(("source_ptr", "starts_ptr", "keys_ptr", "draws_ptr"), INT),
    **dict.fromkeys(("bias_ptr", "lse_ptr", "delta_ptr", "logits_ptr", "mean_ptr", "variance_ptr"), FLOAT),
    **dict.fromkeys(("scale", "natural_scale", "lowest", "highest"), "fp32"),
    **{"block_ptr": "*i1", "size": "i64", "cells": "i64", "base_stride": "i64"},
    **SIZES,
}
FORWARD = {"width": 16, "all_heads": 4, "chunk": kernels.CHUNKS["forward"]}
BACKWARD = {"width": 16, "heads": 4, "chunk": kernels.CHUNKS["backward"], "several": 2}
NETWORK = {"dim": 64, "inner": 64, "tile": 64}
MASKED = {"heads": 4, "width": 16, "block": 128}
CHAINS = ("x", "open", "costs", "best_x", "violated", "best", "best_at", "key")
TABU = {
    **{f"{name}_ptr": INT for name in ("other", "own", "theirs", "starts", "instance", *CHAINS)},
    **dict.fromkeys(("taken", "moves"), "i32"),
}
ANNEAL = {
    **dict.fromkeys(("start_ptr", "unit_ptr", "level_ptr", "begin_ptr", "end_ptr"), "*i64"),
    **dict.fromkeys(("depth_ptr", "member_ptr", "drive_ptr", "salt_ptr", "table_ptr"), INT),
    **dict.fromkeys(("sweep", "count", "sweeps", "steps", "still"), "i32"),
    "x_ptr": "*i8",
}
SWAPS = {
    **{f"{name}_ptr": INT for name in ("may_enter", "x", "load", "since", "best_x", "best", "last")},
    **dict.fromkeys(("now", "steps", "stride"), "i32"),
    "weights_ptr": "*i16",
}
AXIS = {"dim": 64, "tile": 16, "pooled": True, "masked": True}
AXIS_TYPES = {"domain_ptr": "*u8", "first_ptr": "*i16", "parts_ptr": FLOAT, "weight_ptr": FLOAT, "eps": "fp32"}
RELU = {"dim": 128, "tile": 8}
FACTOR_KERNELS = (factors._pool_kernel, factors._pool_backward_kernel, factors._gather_sum_kernel)
FACTORS = {"dim": 64, "tile": factors.CELLS // 64}
LISTS = {
    **dict.fromkeys(("members_ptr", "factors_ptr", "starts_ptr"), INT),
    **dict.fromkeys(("share_ptr", "amounts_ptr"), FLOAT),
    **dict.fromkeys(("size", "literals", "factors", "owners"), "i32"),
    **{"mean_ptr": HALF, "first_ptr": "*i16"},
}
CASES = [
    (annealing_kernel._anneal_kernel, {"shift": 16, "width": 128, "slots": 16}, ANNEAL),
    (annealing_kernel._anneal_kernel, {"shift": 32, "width": 128, "slots": 8}, {**ANNEAL, "table_ptr": "*i64"}),
    (annealing_kernel._anneal_kernel, {"shift": 16, "width": 1, "slots": 1024}, ANNEAL),
    (axis_kernels._add_norm_kernel, AXIS, AXIS_TYPES),
    (axis_kernels._add_norm_backward_kernel, AXIS, AXIS_TYPES),
    (axis_kernels._add_relu_kernel, RELU, {}),
    (axis_kernels._add_relu_backward_kernel, RELU, {}),
    *((kernel, {**FACTORS, "weighted": weighted}, LISTS) for kernel in FACTOR_KERNELS for weighted in (False, True)),
    (dense_kernels._forward_kernel, MASKED, {"mask_ptr": "*u8"}),
    (dense_kernels._backward_kernel, MASKED, {"mask_ptr": "*u8"}),
    (dense_kernels._tiled_kernel, {"heads": 4, "width": 16, "queries": 64, "keys": 64}, {"words_ptr": INT}),
    (kernels._forward_kernel, {**FORWARD, "biased": True, "even_only": False, "several": 1}, {}),
    (kernels._forward_kernel, {**FORWARD, "biased": False, "even_only": True, "several": 2}, {}),
    (kernels._backward_kernel, {**BACKWARD, "biased": True}, {}),
    (kernels._delta_kernel, {"width": 16, "tile": 256}, {}),
    (streams._noise_kernel, {"normal": True, "chunk": 1024}, {"out_ptr": FLOAT}),
    (tabu_kernel._tabu_kernel, {"width": 9, "values": 16, "tile": 128, "neighbours": 64}, TABU),
    (swaps_kernel._swap_kernel, {"every": 16, "block": 1024}, SWAPS),
    (fused._first_kernel, {**NETWORK, "features": 4}, {}),
    (fused._layer_kernel, {**NETWORK, "wide": 128, "last": False}, {}),
    (fused._layer_kernel, {**NETWORK, "wide": 128, "last": True}, {}),
]


def main() -> None:
    stand_still_while_compiling()
    behind = time.monotonic() - working_time()
    for kernel, constants, own in CASES:
        types = {**TYPES, **own}
        signature = {name: "constexpr" if name in constants else types.get(name, HALF) for name in kernel.arg_names}
        places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
        source = ASTSource(fn=kernel, signature=signature, constexprs=places)
        made = compile_kernel(source, target=GPUTarget("cuda", 90, 32))
        print(kernel.__name__, len(made.asm["cubin"]), made.metadata.shared)
    assert time.monotonic() - working_time() > behind, "instances pay for the compiler"


if __name__ == "__main__":
    main()
