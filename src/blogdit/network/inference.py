"""The network as it runs without gradients: in bfloat16 and in fused kernels where the device has them."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from blogdit.method.batch import Batch
from blogdit.method.chain import Denoise
from blogdit.network.denoiser import Denoiser
from blogdit.network.runtime import runs_kernels


def inference_copy(denoiser: Denoiser, device: torch.device) -> Denoiser:
    """The network on the device; on a GPU a copy in bfloat16, elsewhere the very same."""
    if device.type == "cuda":
        denoiser = copy.deepcopy(denoiser).to(torch.bfloat16)
    return denoiser.to(device).eval()


def fastest(denoiser: Denoiser, batch: Batch) -> Denoise:
    """The network on a batch, without gradients, as fast as the device can: fused kernels where they fit."""
    bound = denoiser.on(batch)
    if not runs_kernels(batch.device):
        return bound
    from blogdit.network.kernels.fused import FusedDenoiser  # needs Triton

    if not FusedDenoiser.fits(denoiser, bound.context):
        return bound
    return replace(bound, network=FusedDenoiser(denoiser))
