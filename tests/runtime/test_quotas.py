"""How many processors a group of processes (a container) may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellc_runtime import platform


def found(folder: Path, lines: str, files: dict[str, str]) -> float | None:
    """What is found where `/proc/self/cgroup` has these lines and the groups these files."""
    own = folder / "own"
    own.write_text(lines)
    for name, text in files.items():
        path = folder / "mounted" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return platform._found_quota(str(own), str(folder / "mounted"))


@pytest.mark.parametrize(("lines", "files", "want"), [
    ("0::/a/b\n", {"a/b/cpu.max": "150000 100000\n"}, 1.5),
    ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n"}, None),
    ("0::/a/b\n", {"a/b/cpu.max": "300000 100000\n", "a/cpu.max": "200000 100000\n"}, 2.0),
    ("0::/\n", {}, None),
    ("0::/a\n", {"a/cpu.max": "100000 0\n"}, None),
    ("0::/a\n", {"a/cpu.max": "what\n"}, None),
    ("2:cpu,cpuacct:/a\n", {"cpu,cpuacct/a/cpu.cfs_quota_us": "50000\n",
                            "cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}, 0.5),
    ("2:cpuacct,cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "50000\n",
                            "cpu/a/cpu.cfs_period_us": "100000\n"}, 0.5),
    ("2:cpu:/a\n", {"cpu/a/cpu.cfs_quota_us": "-1\n",
                    "cpu/a/cpu.cfs_period_us": "100000\n"}, None),
    ("3:memory:/a\n", {"memory/a/cpu.cfs_quota_us": "50000\n",
                       "memory/a/cpu.cfs_period_us": "100000\n"}, None),
    ("not of groups\n", {"cpu.max": "100000 100000\n"}, None),
])
def test_quota(tmp_path, lines, files, want):
    assert found(tmp_path, lines, files) == want


def test_no_groups(tmp_path):
    assert platform._found_quota(str(tmp_path / "none")) is None


@pytest.mark.parametrize(("quota", "want"), [
    (None, (4, True)), (4.0, (4, True)), (9.0, (4, True)), (1.5, (2, False)), (0.1, (1, False))])
def test_processors(monkeypatch, quota, want):
    """Of four, as many as the quota is worth, which are shared then."""
    monkeypatch.setattr(platform, "_cgroup_quota", lambda: quota)
    monkeypatch.setattr(platform.os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    monkeypatch.setattr(platform.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(platform.sys, "platform", "linux")
    assert platform.usable_cpus() == want


def test_a_quota_is_kept_for_a_moment(monkeypatch):
    """Not for ever: a container's may change."""
    clock, asked = [100.0], []
    monkeypatch.setattr(platform, "_quota", (0.0, None))
    monkeypatch.setattr(platform.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(platform, "_found_quota", lambda: asked.append(1) or float(len(asked)))
    assert [platform._cgroup_quota() for _ in range(3)] == [1.0] * 3
    clock[0] += platform._QUOTA_SECONDS + 0.1
    assert platform._cgroup_quota() == 2.0
