"""Files that are read whole, and written whole or not at all."""

import contextlib
import errno
import hashlib
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO, TypeVar

_Stream = TypeVar("_Stream", bound=IO[bytes])


def at_home(path: str | os.PathLike[str]) -> Path:
    """Return a path with the home folder that a leading ``~`` or ``~name`` stands for.

    That of nobody known is a name like any other, at which nothing lies.

    >>> at_home("~nobody-of-this-name/table.csv").as_posix()
    '~nobody-of-this-name/table.csv'
    """
    return Path(os.path.expanduser(path))


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Return what a file, a pipe or a terminal holds; refuse what `ending` does."""
    with open(path, "rb") as stream:
        return ending(stream).read()


def ending(stream: _Stream) -> _Stream:
    """Return an open file; refuse a device whose bytes never end, such as ``/dev/zero``."""
    with contextlib.suppress(io.UnsupportedOperation):  # a stream in memory has no number
        about = os.fstat(stream.fileno())
        ends = about.st_rdev == os.stat(os.devnull).st_rdev or stream.isatty()
        if stat.S_ISCHR(about.st_mode) and not ends:
            raise OSError(errno.EINVAL, "is a device whose bytes never end")
    return stream


def sum_of(file: str | os.PathLike[str], algorithm: str = "sha256") -> str:
    """Return the sum of a file in hexadecimal digits."""
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def found_from(folder: str | os.PathLike[str], path: str) -> Path | None:
    """Return the full path of what lies at ``path`` as seen from a folder; None if nothing does.

    >>> found_from("/", "no-such-folder/table.csv")
    """
    here = os.path.join(folder, os.path.expanduser(path))
    return Path(os.path.realpath(here)) if os.path.exists(here) else None


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Replace a file in one step: temporary name beside it, fsync, rename, fsync of the folder.

    After a crash at any moment the file holds either what it held before or all of ``data``.
    Text is written as UTF-8; missing parent folders are made.  A link is followed: the file that
    it leads to is replaced.  What is no file is never replaced: see `replacing`.  An old file's
    permissions are kept; a new one has those that the umask leaves.  Drafts that processes left
    there when they were killed are removed.  Where the folder cannot be written or the disk is full
    the old file is untouched.
    """
    with replacing(path) as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Open what takes the place of a file in one step when the block ends, as `write_atomic` does.

    A terminal, another character device or a pipe is written to as it stands; a folder, a block
    device or a socket is refused.  Errors name the path.
    """
    kind = kind_of(path)
    target = Path(os.path.realpath(path))
    # A deleted file that some process still has open has a place, but no name any more.
    nameless = kind == "file" and not target.exists()
    if kind in ("character device", "pipe") or nameless:
        with named(path), open(os.open(path, os.O_WRONLY), "wb") as file:
            yield file
        return
    if kind not in ("", "file"):
        number = errno.EISDIR if kind == "folder" else errno.EINVAL
        raise OSError(number, f"is a {kind}, and nothing is written to it", str(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    with named(path):
        handle, name = _draft_of(target)
        try:
            with open(handle, "wb") as file:
                _remove_drafts(target, handle)
                yield file
                file.flush()
                if kind:
                    os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
                os.fsync(file.fileno())
                os.replace(name, target)  # while it is held: nobody's draft may be removed
        except BaseException:
            name.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)


def make_new(path: Path, content: bytes) -> bool:
    """Make a file with its content in one step; return False, and change nothing, if it exists.

    Of several processes that try, one succeeds, on network file systems too.
    """
    handle, draft = _draft_of(path)
    try:
        with open(handle, "wb") as file:
            _remove_drafts(path, handle)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except (FileExistsError, FileNotFoundError):
                return False  # it is there, or somebody who tidies up has removed the draft
            except OSError:
                return _made_in_place(path, content)
        return True
    finally:
        draft.unlink(missing_ok=True)


def _made_in_place(path: Path, content: bytes) -> bool:
    """Make a file on a file system without links: it is empty for a moment."""
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    return True


@cache
def this_boot() -> str:
    """Return an id that processes of this machine share from one start of it to the next."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{uuid.getnode():012x}"


def _mark() -> str:
    return this_boot()[-8:]


def _draft_of(target: Path) -> tuple[int, Path]:
    """Open a new draft of a file, whose lock is held until it is closed."""
    while True:
        # A name may have 255 bytes, four a character: the draft's must fit, too.
        mark = _mark() + secrets.token_hex(4)
        draft = target.parent / f".{target.name[:40]}.{mark}.tmp"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with contextlib.suppress(OSError):
            lock_file(handle, wait=True)
        if draft.exists():
            return handle, draft
        os.close(handle)  # before it was locked, another process took it for one left behind


def lock_file(handle: int, *, wait: bool) -> None:
    """Lock an open file until it is closed, for every process of this machine.

    ``BlockingIOError``: somebody else holds it and we do not ``wait``; any other ``OSError``: its
    file system, or this system, locks no files.
    """
    try:
        import fcntl
    except ModuleNotFoundError as error:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)) from error
    fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


_SILENT = 60.0
"""Seconds without a write after which a draft that nobody here holds is nobody's elsewhere."""


def _remove_drafts(target: Path, handle: int) -> None:
    """Remove other drafts of a file whose writers were killed; ``handle`` is our own.

    Who writes one holds its lock, which every process of a machine sees.  On some network file
    systems no other machine does: there its last write must lie back, by the file system's clock.
    """
    now = os.fstat(handle).st_mtime
    drafts = re.compile(re.escape(f".{target.name[:40]}.") + r"([0-9a-f]{8})[0-9a-f]{8}\.tmp")
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            found = drafts.fullmatch(entry.name)
            if not found or not entry.is_file(follow_symlinks=False):
                continue
            if found[1] != _mark() and now - entry.stat().st_mtime < _SILENT:
                continue
            # Held, another user's, or removed by somebody faster: it stays.
            with contextlib.suppress(OSError), open(entry.path, "r+b") as draft:
                lock_file(draft.fileno(), wait=False)
                os.unlink(entry.path)


@contextlib.contextmanager
def own_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a folder that is there while the block runs; those of killed processes are removed."""
    remove_abandoned(parent, prefix)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{prefix}{_mark()}-", dir=parent))
        held = (folder / _HELD).open("wb")
        with contextlib.suppress(OSError):
            lock_file(held.fileno(), wait=True)
        if folder.exists():
            break
        held.close()  # before it was locked, another process took it for one left behind
    with held:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


_HELD = ".held"
"""File in a folder of `own_folder` that is locked while its process lives."""


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove our own folders of `own_folder` whose processes, of this machine, were killed."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            here = entry.name.startswith(f"{prefix}{_mark()}-")
            if not here or not entry.is_dir(follow_symlinks=False):
                continue
            # Held, not yet locked by who makes it, or removed by somebody faster: it stays.
            with contextlib.suppress(OSError), open(f"{entry.path}/{_HELD}", "r+b") as held:
                if os.fstat(held.fileno()).st_uid == getattr(os, "geteuid", int)():
                    lock_file(held.fileno(), wait=False)
                    shutil.rmtree(entry.path, ignore_errors=True)


@contextlib.contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Let an error of the system name this path: a full disk names none, others the draft."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
}


def kind_of(path: str | Path) -> str:
    """Return what stands at a path, links followed; empty if nothing does.

    Examples
    --------
    >>> kind_of(os.curdir), kind_of(os.devnull)
    ('folder', 'character device')
    """
    try:
        return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "special file")
    except FileNotFoundError:
        return ""


def write_changed(path: str | Path, data: str) -> None:
    """Write a text file atomically unless that is what it holds already.

    A complete run directory can then be processed again where nothing can be written.
    """
    with contextlib.suppress(FileNotFoundError):
        if Path(path).read_bytes() == data.encode("utf-8"):
            return
    write_atomic(path, data)


def sync_folder(folder: Path) -> None:
    """Write a folder to the disk, so that files renamed into it survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
