"""The network as it runs without gradients: in bfloat16 and in fused kernels where the device has them."""

from __future__ import annotations

import copy

import torch

from blogdit.method.chain import DenoiserCall
from blogdit.network.config import Context
from blogdit.network.denoiser import Denoiser
from blogdit.network.runtime import runs_kernels


def inference_copy(denoiser: Denoiser, device: torch.device) -> Denoiser:
    """The network on the device; on a GPU a copy in bfloat16, elsewhere the very same."""
    if device.type == "cuda":
        denoiser = copy.deepcopy(denoiser).to(torch.bfloat16)
    return denoiser.to(device).eval()


def fastest(denoiser: Denoiser, context: Context) -> DenoiserCall:
    """The fastest way to call the network in a context that it made: fused, where that fits, else as it is."""
    if not runs_kernels(context.base.device):
        return denoiser
    from blogdit.network.kernels.fused import FusedDenoiser  # needs Triton

    return FusedDenoiser(denoiser) if FusedDenoiser.fits(denoiser, context) else denoiser
