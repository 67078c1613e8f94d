"""A folder that is written whole or not at all, with the checksums of its files in meta.json."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from gassip.errors import GassipError
from gassip.runs.checked_meta import Meta
from gassip.runs.format import digest, real, recover, replace_file


def sealed(folder: Path, meta: Meta, contents: dict[str, bytes]) -> Meta:
    """Write the folder with the checksums of its files in meta.json."""
    meta["files"] = {
        name: hashlib.sha256(content).hexdigest() for name, content in contents.items()
    }
    meta["sha256"] = digest(meta)
    contents["meta.json"] = to_json(meta).encode()
    try:
        write_folder(folder.resolve(), contents)
    except OSError as error:
        raise GassipError(
            f"cannot write {folder}: {error.strerror or error}; nothing was kept of it"
        ) from error
    return meta


def check_target(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that exists, unless it is a run that may be replaced."""
    real(folder)
    recover(folder)
    if not os.path.lexists(folder):
        return
    if not overwrite:
        raise GassipError(f"{folder} exists; choose another --out, or --overwrite to replace it")
    if not all((folder / name).is_file() for name in ("meta.json", "model.safetensors")):
        raise GassipError(
            f"{folder} is not the folder of a run, so it is not overwritten; choose another --out"
        )


def write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Into a folder beside it, renamed at the end; an old run goes only when the new one is
    whole."""
    beside, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.rmtree(beside, ignore_errors=True)  # of a process that was killed while it wrote
        beside.mkdir()
        for name, content in contents.items():
            replace_file(beside / name, content)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)
            folder.rename(old)
        try:
            beside.rename(folder)
        except OSError:
            if old.exists():
                old.rename(folder)
            raise
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def to_json(value: object) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"
