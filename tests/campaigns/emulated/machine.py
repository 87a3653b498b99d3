"""Processors that this machine does not have, by QEMU's user mode, and what runs on them.

`aarch64` gets a folder of its own with a Python of Debian's and wheels of PyPI's for it; nothing is
installed. `haswell`, an x86-64 without AVX-512, runs this process's own Python.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = Path(os.environ.get("CELLC_EMULATED_DIR", ROOT / ".emulated"))
"""Where the packages are: `.ci/emulators` makes it."""
SOURCES = [str(ROOT / part) for part in ("runtime", "compiler", "frontend")]
PYTHON = "3.11"
"""Debian 12's."""
DEBIAN = ("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6",
          "libgcc-s1", "libstdc++6", "zlib1g", "libexpat1", "libffi8", "libssl3", "libbz2-1.0",
          "liblzma5", "libsqlite3-0", "libuuid1", "libcrypt1")
RUNTIME = ("numpy", "ml_dtypes")
WHOLE = (*RUNTIME, "llvmlite", "msgpack", "networkx", "rich", "pytest", "pytest-timeout",
         "pytest-xdist", "hypothesis")
"""The product itself, and its tests."""
_APT = """\
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; "arm64"; }};
Dir::State "{folder}";
Dir::State::status "{folder}/status";
Dir::State::lists "{folder}/lists";
Dir::Cache "{folder}/cache";
Acquire::Retries "1";
Acquire::http::Timeout "20";
"""
_STARTER = """\
#!/bin/sh
exec '{qemu}' -L '{root}' '{root}/usr/bin/python{version}' "$@"
"""
NAMES = ("aarch64", "haswell")
TARGETS = {"aarch64": "aarch64-neon", "haswell": "x86_64-avx2"}
"""The target of each machine."""


class Missing(Exception):
    """What an emulated machine needs is not there; the text says what."""


@dataclass(frozen=True)
class Machine:
    """An emulated processor with a Python on it.

    Attributes:
        name: one of `NAMES`.
        python: the command that starts Python on it.
        paths: where its modules are.
    """

    name: str
    python: tuple[str, ...]
    paths: tuple[str, ...]

    @property
    def target(self) -> str:
        """The target whose code it runs."""
        return TARGETS[self.name]

    def run(self, arguments: Sequence[str],
            seconds: float | None = None) -> subprocess.CompletedProcess[str]:
        """Python with these arguments, in the root of the project.

        Raises:
            TimeoutExpired: after `seconds`.
        """
        return subprocess.run([*self.python, *arguments], cwd=ROOT, env=self._environment(),
                              text=True, capture_output=True, timeout=seconds, check=False)

    def call(self, arguments: Sequence[str]) -> int:
        """The same, with the output where this process's goes; the status."""
        return subprocess.call([*self.python, *arguments], cwd=ROOT, env=self._environment())

    def _environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k != "CELLC_TARGET"}
        return {**kept, "PYTHONPATH": os.pathsep.join(self.paths), "CELLC_COMPILE_JOBS": "1"}


def machine(name: str, folder: Path = FOLDER) -> Machine:
    """An emulated machine whose parts are in `folder`.

    Raises:
        Missing: something is not there.
    """
    if name == "haswell":
        if platform.machine() != "x86_64":
            raise Missing("no QEMU machine: haswell runs this process's Python, on x86-64 alone")
        return Machine(name, (_qemu("x86_64", folder), "-cpu", "Haswell", sys.executable),
                       tuple(SOURCES))
    python = folder / "root" / "usr" / "bin" / f"python{PYTHON}"
    site = folder / "site"
    for place in (python, site / "numpy"):
        if not place.exists():
            raise Missing(f"no QEMU machine: {place.relative_to(folder)} is not there "
                          "(.ci/emulators installs it)")
    return Machine(name, (_qemu("aarch64", folder), "-L", str(folder / "root"), str(python)),
                   (str(site), *SOURCES))


def _qemu(processor: str, folder: Path) -> str:
    name = f"qemu-{processor}-static"
    own = folder / "qemu" / "usr" / "bin" / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        raise Missing(f"no QEMU: {name} is not there (.ci/emulators installs it)")
    return found


# --- setting up -----------------------------------------------------------------------------------


def set_up(folder: Path = FOLDER, whole: bool = False) -> None:
    """Fetch what is not there: QEMU, Python with its libraries, and wheels.

    Args:
        whole: also LLVM and pytest, so that the project's own tests run there.

    Raises:
        CalledProcessError, OSError: a package cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "root").exists() or not _there("x86_64", folder):
        _debian(folder)
    wanted = WHOLE if whole else RUNTIME
    # One that is half there is made anew: pip installs into a folder what it lacks, or nothing.
    if not all(_has(folder / "site", name) for name in wanted):
        _wheels(folder, wanted)


def _there(processor: str, folder: Path) -> bool:
    try:
        _qemu(processor, folder)
    except Missing:
        return False
    return True


def _has(site: Path, name: str) -> bool:
    return any(site.glob(f"{name.replace('-', '_')}-*.dist-info"))


def _debian(folder: Path) -> None:
    """Packages of another processor, unpacked into `folder`: the system's own list of packages
    and architectures stays as it is."""
    apt, files = folder / "apt", folder / "packages"
    for place in (apt / "lists" / "partial", apt / "cache" / "archives" / "partial", files):
        place.mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    (apt / "apt.conf").write_text(_APT.format(folder=apt))
    env = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}

    def do(*words: str) -> None:
        subprocess.run(words, cwd=files, env=env, check=True, capture_output=True)

    do("apt-get", "update", "-qq")
    do("apt-get", "download", "-qq", "qemu-user-static", *(f"{name}:arm64" for name in DEBIAN))
    for package in files.glob("*.deb"):
        emulator = package.name.startswith("qemu")
        do("dpkg", "-x", str(package), str(folder / ("qemu" if emulator else "new-root")))
    for emulator in (folder / "qemu" / "usr" / "bin").iterdir():
        if emulator.name not in ("qemu-aarch64-static", "qemu-x86_64-static"):
            emulator.unlink()
    (folder / "new-root").rename(folder / "root")
    for place in (apt, files):
        shutil.rmtree(place)


def _wheels(folder: Path, names: Sequence[str]) -> None:
    """Wheels for aarch64, of the versions that are installed here where those exist there."""
    shutil.rmtree(folder / "site", ignore_errors=True)
    tags = ("2014", "_2_17", "_2_27", "_2_28")
    platforms = [f"--platform=manylinux{tag}_aarch64" for tag in tags]
    wanted = [f"{name}=={importlib.metadata.version(name)}" for name in names]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder / "site"),
         *platforms, "--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp",
         *wanted], check=True, capture_output=True)
    # A process that starts another Python would start one of the wrong processor: the system
    # knows no emulator. What is started through a shell of this machine is emulated too.
    starter = folder / "python"
    starter.write_text(_STARTER.format(
        qemu=_qemu("aarch64", folder), root=folder / "root", version=PYTHON))
    starter.chmod(0o755)
    (folder / "site" / "sitecustomize.py").write_text(
        f"import sys\n\nsys.executable = {str(starter)!r}\n")
