"""Free memory: never more than the container allows."""

from pathlib import Path
from typing import Any

import pytest
import torch

from napari_mst.base import memory
from napari_mst.engine.plan import free_memory

CPU = torch.device("cpu")
GIB = 2**30


def cgroup(root: Path, line: str, folder: str, files: dict[str, str]) -> None:
    """A machine whose processes are in the cgroup of *line*, and one folder with its *files*."""
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text(f"1:cpu:/\n{line}\n")
    (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (root / folder / name).write_text(f"{text}\n")


V2 = {
    "memory.max": str(4 * GIB),
    "memory.current": str(3 * GIB),
    "memory.stat": f"anon 5\ninactive_file {GIB}",
}
V1 = {
    "memory.limit_in_bytes": str(4 * GIB),
    "memory.usage_in_bytes": str(3 * GIB),
    "memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB}",
}


@pytest.mark.parametrize(
    ("line", "folder", "files"),
    [
        ("0::/a/b", "sys/fs/cgroup/a/b", V2),
        ("0::/a/b", "sys/fs/cgroup/a", V2),
        ("0::/not/seen/from/inside", "sys/fs/cgroup", V2),
        ("4:memory:/a", "sys/fs/cgroup/memory/a", V1),
        ("4:hugetlb,memory:/a", "sys/fs/cgroup/memory", V1),
    ],
    ids=["v2", "v2-parent", "v2-container", "v1", "v1-container"],
)
def test_a_container_allows_its_limit_less_what_cannot_be_given_back(
    tmp_path: Path, line: str, folder: str, files: Any
) -> None:
    cgroup(tmp_path, line, folder, files)
    assert list(memory.free_in_cgroups(tmp_path)) == [2 * GIB]


@pytest.mark.parametrize("files", [{**V2, "memory.max": "max"}, {}], ids=["no limit", "no files"])
def test_a_container_without_a_limit_says_nothing(tmp_path: Path, files: dict[str, Any]) -> None:
    cgroup(tmp_path, "0::/a", "sys/fs/cgroup/a", files)
    assert list(memory.free_in_cgroups(tmp_path)) == []


def test_where_there_are_no_cgroups_the_machine_counts(tmp_path: Path) -> None:
    assert list(memory.free_in_cgroups(tmp_path)) == []
    assert 10**7 < free_memory(CPU) < 10**14


def test_the_smallest_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_in_cgroups", lambda root: iter([5000, 3000]))
    assert free_memory(CPU) == 3000


def test_what_torch_keeps_of_earlier_tensors_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (GIB, 8 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5 * GIB)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * GIB)
    assert free_memory(torch.device("cuda:1")) == 4 * GIB
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 8 * GIB)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 2 * GIB)
    assert free_memory(torch.device("mps")) == 6 * GIB
