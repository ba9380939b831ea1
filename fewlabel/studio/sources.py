"""The examples to label: the pictures of a folder, or the texts or rows of a file."""

import os
import zlib
from pathlib import Path
from typing import Any, Protocol

from ..data.picture_files import scan
from ..data.row_files import Roles, RowFile, folder_roles, is_row_file
from ..encoders.listed import DEFAULT, ENCODERS, MINILM, PHOTOS, TEXT, is_installed
from ..errors import UserError
from .pictures import shown_picture

LONGEST = 10_000  # letters of a text that are shown


class Source(Protocol):
    """Examples by name, as the page shows them."""

    path: Path  # the folder or file, in full
    names: list[str]
    given: dict[str, str]  # labels that came with the examples
    noun: str  # in messages, plural
    roles: Roles | None  # of columns
    encoder: str | None  # by which examples are compared
    comparable: bool  # can they be compared, so that the most useful come first?
    note: str  # messages

    def shown(self, name: str) -> dict[str, Any]:
        """The content of an example, besides number and name."""

    def picture(self, name: str, size: str) -> tuple[bytes, str]:
        """The picture, and its media type."""


class PictureFolder:
    """The pictures of a folder, at any depth."""

    noun = "pictures"
    roles: Roles | None = None

    def __init__(self, folder: Path) -> None:
        self.path = folder.resolve()
        notes: list[str] = []
        self.names = scan(folder, notes)
        self.given: dict[str, str] = {}
        self.encoder = DEFAULT if ENCODERS[DEFAULT].installed else None
        self.comparable = self.encoder is not None
        if not self.comparable:
            notes.append(f"In random order. To see the most useful pictures first: {PHOTOS}.")
        self.note = " ".join(notes)

    def shown(self, name: str) -> dict[str, Any]:
        """A version that changes with the file: browsers keep pictures."""
        try:
            status = os.stat(self.path / name)
        except OSError:
            return {"version": 0}
        seen = f"{name} {status.st_size} {status.st_mtime_ns}".encode("utf-8", "surrogateescape")
        return {"version": zlib.crc32(seen)}

    def picture(self, name: str, size: str) -> tuple[bytes, str]:
        return shown_picture(self.path / name, size)


class Rows:
    """Texts or rows of a table. Their content is sent with their names, so there is no picture to fetch."""

    def __init__(self, path: Path, roles: Roles) -> None:
        self.path = path.resolve()
        self.roles: Roles | None = roles
        listing = RowFile(path, roles).listing(LONGEST)
        self.names = list(listing.names)
        self.given = {name: label for name, label in zip(self.names, listing.labels, strict=True) if label}
        self._texts, self._places = listing.shown, {name: place for place, name in enumerate(self.names)}
        is_text = roles.text is not None
        self.noun = "texts" if is_text else "rows"
        self.encoder = MINILM if is_text else None
        self.comparable = not is_text or is_installed(MINILM)
        self.note = "" if self.comparable else f"In random order. To see the most useful texts first: {TEXT}."

    def shown(self, name: str) -> dict[str, Any]:
        return {"version": 0, "text": self._texts.show(self._places[name])}

    def picture(self, name: str, size: str) -> tuple[bytes, str]:
        raise UserError("there are no pictures here.")


def open_source(data: Path, roles: Roles | None) -> Source:
    """A folder of pictures, a file of texts or rows, or a folder of texts."""
    if is_row_file(data):
        return Rows(data, (roles if roles != Roles() else None) or folder_roles(data, subfolders=True) or Roles())
    if roles not in (None, Roles()):
        raise UserError(f"--text-column and the like are for files of rows, such as .csv, not for {data}.")
    return PictureFolder(data)
