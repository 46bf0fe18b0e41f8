"""Work of a GPU that is recorded once and replayed: a CUDA graph, without the host's time for every launch."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Sequence

import torch


def record(
    work: Callable[[], None], what: str, generators: Sequence[torch.Generator] = ()
) -> torch.cuda.CUDAGraph | None:
    """What `work` launches, not yet run. It must have run before, and find and leave its results in the same tensors.
    None, with a warning, if some operation waits for the host."""
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    gc.disable()  # an old graph that is freed while this one is recorded would spoil it
    try:
        # The outer context restores the stream if the capture fails.
        with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
            work()
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        warnings.warn(f"{what} are launched one by one, which is slower: {error}", stacklevel=2)
        return None
    finally:
        gc.enable()
    return graph
