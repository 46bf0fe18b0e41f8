"""Files and folders of instances, each instance under a name of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from blogdit import formats
from blogdit.core.errors import InputError
from blogdit.core.instance import Instance
from blogdit.formats.limits import Limits
from blogdit.formats.text import STANDARD, OnError, plain_stem


def find_files(paths: Iterable[str | Path], leave_out: Iterable[str | Path] = ()) -> list[Path]:
    """The files that are named, and those in the folders that are named, sorted; each once, hidden ones left out."""
    known = {Path(path).resolve() for path in leave_out}
    found = []
    for path in map(Path, paths):
        try:
            inside = sorted(path.iterdir()) if path.is_dir() else [path]
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path) from None
        if path.is_dir():
            inside = [entry for entry in inside if not entry.name.startswith(".") and not entry.is_dir()]
            if not inside:
                raise InputError("a folder without files; expected instances", path)
        for file in inside:
            if (real := file.resolve()) not in known:
                known.add(real)
                found.append(file)
    return found


def write_files(instances: Sequence[Instance], names: Sequence[str], out: Path, form: str | None = None) -> None:
    """Into one file or, if `out` is a folder or several instances go to a path without a suffix, into one file each,
    called by `names`. Nothing is overwritten."""
    parts: dict[Path, Sequence[Instance]] = {out: instances}
    if out.is_dir() or (len(instances) > 1 and not out.suffix and out != STANDARD):
        parts = {
            out / f"{name}{formats.native_suffix(one.problem, form)}": [one]
            for name, one in zip(names, instances, strict=True)
        }
    for path in parts:
        if path.is_file():
            raise InputError("exists already; expected another file", path)
    try:
        if out not in parts:
            out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made a folder: {error.strerror or error}", out) from None
    for path, some in parts.items():
        formats.write(some, path, form)


def name_files(files: Sequence[Path]) -> list[str]:
    """The stem of each file; where stems are equal, with the folder, then with the suffix, then the whole path."""
    kinds: tuple[Callable[[Path], str], ...] = (
        plain_stem,
        lambda path: f"{path.absolute().parent.name}/{plain_stem(path)}",
        lambda path: f"{path.absolute().parent.name}/{path.name}",
        lambda path: str(path.absolute()),
    )
    names = [str(path) for path in files]
    left = list(range(len(files)))
    for kind in kinds:
        candidates = {place: kind(files[place]) for place in left}
        often = Counter(candidates.values())
        for place, name in candidates.items():
            names[place] = name
        left = [place for place in left if often[candidates[place]] > 1]
    return names


def read_all(
    files: Sequence[Path],
    problem: str | None = None,
    colors: int | None = None,
    on_error: OnError | None = None,
    limits: Limits | None = None,
) -> Iterator[Instance]:
    """The instances of all files one by one, each under a name of its own."""
    names = name_files(files)
    seen, copies = set[str](), Counter[str]()
    for path, name in zip(files, names, strict=True):
        for instance in formats.stream(path, problem, colors, name, on_error, limits):
            unique = instance.name
            while unique in seen:
                copies[instance.name] += 1
                unique = f"{instance.name}#{copies[instance.name] + 1}"
            seen.add(unique)
            yield instance if unique == instance.name else replace(instance, name=unique)
