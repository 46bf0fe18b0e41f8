"""The noise of instances on a GPU: the same numbers as `method.noise.StreamNoise`, in one kernel."""

from __future__ import annotations

from torch import Tensor

from blogdit.method.noise import StreamNoise
from blogdit.network.runtime import runs_kernels


class KernelNoise(StreamNoise):
    """Streams whose numbers a Triton kernel computes: uniform ones bit for bit, normal ones up to the last bits."""

    def _uniform(self, chains: int, variables: int) -> Tensor:
        return self._numbers(chains, variables, 1, normal=False).squeeze(-1)

    def _normal(self, chains: int, variables: int, width: int) -> Tensor:
        return self._numbers(chains, variables, width, normal=True)

    def _numbers(self, chains: int, variables: int, width: int, normal: bool) -> Tensor:
        from blogdit.network.kernels.streams import stream_numbers  # needs Triton

        return stream_numbers(self.keys, self.draws, chains, variables, width, normal)


def stream_noise(keys: Tensor, draws: Tensor | None = None) -> StreamNoise:
    """The streams of instances with these keys (B,), computed as fast as the keys' device can."""
    return (KernelNoise if runs_kernels(keys.device) else StreamNoise)(keys, draws)
