"""The disk cache: whatever happens to it, a caller sees bytes it stored or a miss."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path

import pytest

from cellc_runtime import cache as module
from cellc_runtime import knobs
from cellc_runtime.cache import Cache, make_key

KEY = make_key("a key")


@pytest.fixture
def store(cache_dir: Path) -> Cache:
    return Cache(cache_dir, 1 << 20)


def only_file(store: Cache) -> Path:
    files = list(store.directory.rglob("*.bin"))
    assert len(files) == 1
    return files[0]


def test_what_is_put_is_got(store: Cache) -> None:
    assert store.get(KEY) is None
    assert store.put(KEY, b"payload")
    assert store.get(KEY) == b"payload"
    assert [e.key for e in store.entries()] == [KEY]
    assert store.size() == store.entries()[0].size > 7
    assert store.clear() == 1
    assert store.get(KEY) is None and store.entries() == []


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_the_cache_is_its_owners_alone(store: Cache) -> None:
    store.put(KEY, b"code")
    assert stat.S_IMODE(store.directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(store).stat().st_mode) == 0o600
    store.directory.chmod(0o777)
    assert store.get(KEY) is None and not store.put(KEY, b"code")
    assert store.entries() == []


def test_damage_is_a_miss_and_is_removed(store: Cache) -> None:
    store.put(KEY, bytes(range(100)))
    whole = only_file(store).read_bytes()
    for at in range(len(whole)):
        path = store._path(KEY)
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])
        assert store.get(KEY) is None, at
        assert not path.exists()
    for length in range(len(whole)):
        store._path(KEY).write_bytes(whole[:length])
        assert store.get(KEY) is None, length


def test_an_entry_under_another_key_is_a_miss(store: Cache) -> None:
    store.put(KEY, b"payload")
    other = make_key("another")
    store._path(other).parent.mkdir(exist_ok=True)
    os.replace(store._path(KEY), store._path(other))
    assert store.get(other) is None


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_read_only_disk_means_no_cache(
    store: Cache, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(KEY, b"old")

    def fails(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(module.os, "replace", fails)
    assert not store.put(make_key("new"), b"new")
    assert store.get(KEY) == b"old"
    assert not list(store.directory.rglob(".new-*"))


def test_a_directory_that_cannot_be_means_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Cache(tmp_path / "file" / "cache", 1 << 20)
    assert not store.put(KEY, b"x") and store.get(KEY) is None
    assert store.entries() == [] and store.size() == 0 and store.clear() == 0


def test_the_least_recently_used_goes(cache_dir: Path) -> None:
    store = Cache(cache_dir, 10_000)
    keys = [make_key(str(i)) for i in range(20)]
    for i, key in enumerate(keys[:8]):
        store.put(key, bytes(1000))
        os.utime(store._path(key), (1000 + i, 1000 + i))
    assert store.get(keys[0]) is not None  # now it is the most recently used
    for key in keys[8:11]:
        store.put(key, bytes(1000))
    assert store.size() <= 10_000
    assert store.get(keys[0]) is not None
    assert store.get(keys[1]) is None
    assert not store.put(make_key("huge"), bytes(20_000))


def test_no_size_is_no_cache(cache_dir: Path) -> None:
    store = Cache(cache_dir, 0)
    assert not store.put(KEY, b"") and store.get(KEY) is None and not cache_dir.exists()
    Cache(cache_dir, 1000).put(KEY, b"what is there already")
    assert store.get(KEY) is None and store.size() > 0 and len(store.entries()) == 1


def test_keys_separate_their_parts() -> None:
    assert make_key("ab", "c") != make_key("a", "bc") != make_key("abc")


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("512M", 512 << 20), ("1GiB", 1 << 30), ("1.5k", 1536)]
)
def test_sizes_are_read(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELLC_CACHE_SIZE", text)
    assert knobs.read().cache_size == size


@pytest.mark.parametrize(
    ("name", "text"),
    [("CELLC_CACHE_SIZE", "lots"), ("CELLC_NUM_THREADS", "0"), ("CELLC_NUM_THREADS", "two"),
     ("CELLC_NUM_THREADS", "-1"), ("CELLC_NUM_THREADS", "2.5"), ("CELLC_NUM_THREADS", "1025"),
     ("CELLC_COMPILE_JOBS", "9" * 30)],
)
def test_unreadable_knobs_are_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=name):
        knobs.read()


def test_knobs_are_overridden_for_a_scope(tmp_path: Path) -> None:
    before = knobs.read()
    with knobs.override(cache_dir=tmp_path, cache_size=5), knobs.override(cache_size=6):
        assert (knobs.read().cache_dir, knobs.read().cache_size) == (tmp_path, 6)
    assert knobs.read() == before


def _others_files(folder: Path) -> list[Path]:
    """Files of somebody else, old, some in folders as the cache has them."""
    names = ["go/main.go", "ml/thesis.tex", "db/model.bin", "ab/keep.txt", "ab/.new-draft",
             f"zz/{'0' * 62}.bin", f"ab/{'0' * 61}.bin", f"ab/{'A' * 62}.bin", f"{'0' * 62}.bin"]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")
        os.utime(folder / name, (1000, 1000))
    return [folder / name for name in names]


def test_files_of_others_stay(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    files = _others_files(tmp_path)
    store = Cache(tmp_path, 10_000)
    for i in range(20):
        assert store.put(make_key(str(i)), bytes(1000))
    assert store.size() <= 10_000 and len(store.entries()) == store.clear() > 0
    assert all(p.read_text() == "precious" for p in files)


def test_without_the_marker_nothing_is_removed(store: Cache) -> None:
    store.put(KEY, b"payload")
    unfinished = only_file(store).with_name(".new-" + "0" * 16)
    unfinished.write_text("")
    os.utime(unfinished, (1000, 1000))
    marker = store.directory / "CACHEDIR.TAG"
    marker.write_text("another program's")
    assert store.clear() == 0 and store.get(KEY) == b"payload" and unfinished.exists()
    store.put(make_key("more"), b"")
    assert marker.read_text() == "another program's"
    marker.unlink()
    store.put(make_key("more"), b"")
    assert store.clear() == 2 and not unfinished.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are POSIX's")
def test_links_are_not_followed(store: Cache, tmp_path: Path) -> None:
    store.put(KEY, b"payload")
    path = only_file(store)
    elsewhere = tmp_path / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert store.get(KEY) is None and store.entries() == [] and elsewhere.exists()
    path.unlink()
    path.parent.rename(tmp_path / "folder")
    elsewhere.rename(tmp_path / "folder" / path.name)
    path.parent.symlink_to(tmp_path / "folder")
    assert store.get(KEY) is None and not store.put(KEY, b"x") and store.entries() == []


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are POSIX's")
@pytest.mark.parametrize("above", ["writable", "another's", "link of another"])
def test_directories_above_are_checked(tmp_path: Path, above: str) -> None:
    """Whoever can write one of them can put another directory in the cache's place."""
    folder = tmp_path / "a" / "b"
    (folder / "cache").mkdir(mode=0o700, parents=True)
    store = Cache(folder / "cache", 1 << 20)
    assert store.put(KEY, b"payload")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    through = Cache(tmp_path / "link" / "b" / "cache", 1 << 20)
    assert through.get(KEY) == b"payload"  # a link of our own
    if above == "writable":
        (tmp_path / "a").chmod(0o777)
        (tmp_path / "a").chmod(0o1777)
        assert store.get(KEY) == b"payload"  # as /tmp is
        (tmp_path / "a").chmod(0o777)
    elif os.getuid():
        pytest.skip("only root gives a file to another")
    elif above == "another's":
        os.chown(tmp_path / "a", 65534, 65534)
    else:
        os.chown(tmp_path / "link", 65534, 65534, follow_symlinks=False)
        assert store.get(KEY) == b"payload"
        store = through
    assert store.get(KEY) is None and not store.put(KEY, b"x") and store.clear() == 0
    assert not Cache(folder / "fresh", 1 << 20).put(KEY, b"x") or above == "link of another"


@pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")
def test_a_directory_that_is_swapped_is_not_read(tmp_path: Path) -> None:
    """What is opened once stays the same directory."""
    ours, theirs = Cache(tmp_path / "ours", 1 << 20), Cache(tmp_path / "theirs", 1 << 20)
    ours.put(KEY, b"good")
    theirs.put(KEY, b"poison")
    with ours._open() as top:
        ours.directory.rename(tmp_path / "aside")
        theirs.directory.rename(ours.directory)
        with top.inside(KEY[:2]) as folder:
            assert folder.read(KEY[2:] + ".bin").endswith(b"good")
