"""Many photos on many workers: measured on this computer, and simulated for larger clusters.

python -m lab.clusters compare --photos 40             # commands against the pure compute
python -m lab.clusters kill --side 64 --kills 100      # workers, and the run itself
python -m lab.clusters check                           # the simulation against real workers
python -m lab.clusters measure --photos 200 --workers 2 --kills 20
python -m lab.clusters simulate --photos 1000000 --workers 10 10000 --facts '{"photo": 40}'
"""

import argparse
import heapq
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
from PIL import Image

from napari_mst import Photo, Reconstructor, load_model, reconstruct_many
from napari_mst.batch.batch import Batch
from napari_mst.batch.execution import connected, outcomes
from napari_mst.batch.jobs import BatchJob

MODEL = "mstpp-photo"

LOCKS_OF_DASK = {"global.lock", "purge.lock"}
"""Empty files that dask leaves in its folder in the temporary one."""


@dataclass(frozen=True)
class Facts:
    """What a simulation knows of a cluster, in seconds and bytes.

    Attributes
    ----------
    photo
        Seconds that a worker computes at one photo.
    dispatch
        Seconds of client and scheduler for one photo, one after the other.
    start
        Seconds from the start of a worker to its first photo: the imports, and the model.
    model
        Bytes of the model, which the scheduler sends to each worker.
    read, written
        Bytes of a photo and of its cube.
    network, storage
        Bytes a second out of the scheduler; and of the storage that all workers share.
    deaths
        Deaths of a worker in a second of work.
    """

    photo: float
    dispatch: float
    start: float
    model: float = 1.2e6
    read: float = 5e6
    written: float = 31 * 4 * 12e6
    network: float = 1.25e9
    storage: float = 1e10
    deaths: float = 0.0


def simulate(facts: Facts, workers: int, photos: int, seed: int = 0) -> dict[str, float]:
    """Make *photos* by *workers*, event by event: seconds, core hours and what deaths cost.

    Scheduler and storage serve one request after the other, in the order in which they come. A
    worker that dies leaves its photo to another, and is started again.
    """
    rng = np.random.default_rng(seed)
    scheduler = storage = lost = end = 0.0  # the first two: when each is free again
    left, deaths = photos, 0
    started = (index * facts.model / facts.network + facts.start for index in range(workers))
    events = [(when, False) for when in started]
    heapq.heapify(events)
    while events:
        now, is_computed = heapq.heappop(events)
        if is_computed:
            storage = max(storage, now) + facts.written / facts.storage
            end = max(end, storage)
            heapq.heappush(events, (storage, False))
        elif left:
            scheduler = max(scheduler, now) + facts.dispatch
            storage = max(storage, scheduler) + facts.read / facts.storage
            lives = rng.exponential(1 / facts.deaths) if facts.deaths else np.inf
            if lives < facts.photo:
                deaths, lost = deaths + 1, lost + storage - now + lives + facts.start
                heapq.heappush(events, (storage + lives + facts.start, False))
            else:
                left -= 1
                heapq.heappush(events, (storage + facts.photo, True))
    return {
        "seconds": end,
        "core_hours": workers * end / 3600,
        "use": photos * facts.photo / (workers * end),
        "deaths": deaths,
        "seconds_a_death": lost / deaths if deaths else 0.0,
    }


def limits(facts: Facts) -> dict[str, float]:
    """Photos a second that scheduler and storage allow at most."""
    storage = facts.storage / (facts.read + facts.written)
    return {"scheduler": 1 / facts.dispatch, "storage": storage}


def photos_in(folder: Path, count: int, side: int) -> None:
    """Save *count* photos of *side* x *side* pixels, no two alike."""
    rng = np.random.default_rng(0)
    base = rng.integers(0, 256, (side // 16, side // 16, 3), dtype=np.uint8)
    for number in range(count):
        image = Image.fromarray(np.roll(base, number, 0)).resize(
            (side, side), Image.Resampling.BICUBIC
        )
        image.save(folder / f"{number:04}.jpg", quality=90)


def kill_some(client: Any, kills: int, is_over: threading.Event) -> None:
    """Kill *kills* random workers of *client*, 5 to 25 s apart."""
    rng = np.random.default_rng(0)
    while kills and not is_over.wait(float(rng.uniform(5, 25))):
        os.kill(int(rng.choice(list(client.run(os.getpid).values()))), signal.SIGKILL)
        kills -= 1


def processor_seconds() -> float:
    """Seconds of the processor that this process and those below it that still live have had."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    times = [each.cpu_times() for each in processes]
    return sum(each.user + each.system for each in times)


def measure(count: int, side: int, workers: int, kills: int) -> dict[str, float]:
    """Make *count* photos by *workers* (0: this process), of which *kills* are killed."""
    is_over = threading.Event()
    with TemporaryDirectory() as temporary, connected(workers, "") as (client, _):
        folder, cubes = Path(temporary, "photos"), Path(temporary, "cubes")
        folder.mkdir()
        photos_in(folder, count, side)
        if kills:
            threading.Thread(target=kill_some, args=(client, kills, is_over), daemon=True).start()
        before, began = processor_seconds(), time.time()
        ended = reconstruct_many(folder, cubes, client, model=MODEL)
        is_over.set()
        cores, seconds = processor_seconds() - before, time.time() - began
        sizes = [file.stat().st_size for file in cubes.iterdir()]
        moments = sorted(file.stat().st_mtime - began for file in cubes.glob("*.hdr"))
        if any(each.error for each in ended) or len(sizes) != 2 * count:
            raise SystemExit(f"Expected {count} whole cubes, got {ended} and {len(sizes)} files.")
        bytes_read = sum(file.stat().st_size for file in folder.iterdir()) / count
    slots = max(workers, 1)
    return {
        "workers": workers,
        "seconds": seconds,
        "start": moments[0] - (moments[-1] - moments[slots - 1]) * slots / (count - slots),
        "photo": (moments[-1] - moments[slots - 1]) * slots / (count - slots),
        "processor_seconds_a_photo": cores / count,
        "read": bytes_read,
        "written": sum(sizes) / count,
    }


def command(folder: Path, cubes: Path, workers: int) -> list[str]:
    """The command that makes the photos of *folder*, on the processor."""
    arguments = ["reconstruct", folder, "-o", cubes, "--device", "cpu", "--workers", workers]
    return [sys.executable, "-m", "napari_mst", *map(str, arguments)]


def children_seconds() -> float:
    """Seconds of the processor that ended processes below this one have had."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(count: int, side: int, workers: int) -> dict[str, float]:
    """Whole commands over *count* photos, by one process and by *workers*, and the pure compute.

    The pure compute is `Reconstructor.reconstruct` in a process that has made a photo before, with
    as many threads as the command has.
    """
    found = dict[str, float]()
    with TemporaryDirectory() as temporary:
        folder = Path(temporary, "photos")
        folder.mkdir()
        photos_in(folder, count, side)
        photos = sorted(folder.iterdir())
        reconstructor = Reconstructor(load_model(MODEL))
        reconstructor.reconstruct(Photo.read(photos[0]))
        cores, began = time.process_time(), time.time()
        for photo in photos:
            reconstructor.reconstruct(Photo.read(photo))
        found["pure"], found["pure_wall"] = time.process_time() - cores, time.time() - began
        for number in sorted({0, workers}):
            cubes, name = Path(temporary, f"cubes{number}"), f"workers_{number}"
            cores, began = children_seconds(), time.time()
            subprocess.run(command(folder, cubes, number), check=True, capture_output=True)
            found[f"{name}_wall"], found[name] = time.time() - began, children_seconds() - cores
            found[f"{name}_to_pure"] = found[name] / found["pure"]
            found[f"{name}_to_one_process_wall"] = found[f"{name}_wall"] / found["workers_0_wall"]
    return found


def stamps(cubes: Path) -> dict[str, tuple[int, int]]:
    """When each cube of the folder *cubes* was made, and in which file."""
    found = {file.name: file.stat() for file in cubes.glob("*.hdr")}
    return {name: (facts.st_mtime_ns, facts.st_ino) for name, facts in found.items()}


def disturbed(run: "subprocess.Popen[bytes]", rng: np.random.Generator, most: int) -> list[str]:
    """Kill workers of *run* at random moments, *most* at most, or itself, until it has ended."""
    killed, family = list[str](), list[psutil.Process]()
    while len(killed) < most:
        with suppress(subprocess.TimeoutExpired):
            run.wait(float(rng.uniform(0.5, 6)))
            break
        with suppress(psutil.NoSuchProcess, ProcessLookupError):  # it may end meanwhile
            family = psutil.Process(run.pid).children(recursive=True)
            workers = [each.pid for each in family if "spawn_main" in " ".join(each.cmdline())]
            if not workers and rng.random() < 0.9:
                continue  # a run that starts is killed now and then
            is_worker = bool(workers) and rng.random() < 0.7
            os.kill(int(rng.choice(workers)) if is_worker else run.pid, signal.SIGKILL)
            killed.append("worker" if is_worker else "run")
    run.wait()
    if psutil.wait_procs(family, timeout=60)[1]:
        raise SystemExit("Expected the workers to end with their run, got some that did not.")
    if run.returncode and not killed:
        raise SystemExit(f"Expected an undisturbed run to end well, got {run.returncode}.")
    return killed


def kill(count: int, side: int, workers: int, total: int) -> dict[str, float]:
    """Start the command again and again until *total* workers and runs were killed at random.

    Then all cubes must be those of an undisturbed run, none that was there made again, and no other
    file left.
    """
    rng, killed, batches = np.random.default_rng(0), list[str](), 0
    with TemporaryDirectory() as temporary:
        folder, cubes, room = (Path(temporary, name) for name in ("photos", "cubes", "room"))
        folder.mkdir()
        room.mkdir()
        photos_in(folder, count, side)
        # The history says how many threads a run has, so the number of workers is the same.
        subprocess.run(command(folder, cubes, workers), check=True, capture_output=True)
        expected = {file.name: file.read_bytes() for file in cubes.iterdir()}
        while len(killed) < total:
            shutil.rmtree(cubes)
            there = dict[str, tuple[int, int]]()
            while len(there) < count:
                environment = os.environ | {"TMPDIR": str(room)}
                with subprocess.Popen(
                    command(folder, cubes, workers),
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                ) as run:
                    killed += disturbed(run, rng, total - len(killed))
                now = stamps(cubes)
                if not there.items() <= now.items():
                    raise SystemExit(f"Expected cubes to stay, got {there} and then {now}.")
                there = now
            # A run that finds nothing to do takes away what killed ones have left.
            subprocess.run(command(folder, cubes, workers), check=True, capture_output=True)
            batches += 1
            found = {file.name: file.read_bytes() for file in cubes.iterdir()}
            if found != expected:
                others = sorted(
                    name
                    for name in found.keys() | expected.keys()
                    if found.get(name) != expected.get(name)
                )
                raise SystemExit(f"Expected the cubes of an undisturbed run, got other {others}.")
            left = {file.name for file in room.rglob("*") if file.is_file()} - LOCKS_OF_DASK
            if left or stamps(cubes) != there:
                raise SystemExit(f"Expected no other file, got {left}, or cubes made twice.")
    kinds = {f"killed_{kind}s": killed.count(kind) for kind in ("worker", "run")}
    return {**kinds, "batches": batches, "cubes": batches * count}


def check(count: int, side: int) -> dict[str, float]:
    """Real over simulated seconds of one and two workers of one thread, after those of one."""
    os.environ["OMP_NUM_THREADS"] = "1"
    one = measure(count, side, 1, 0)
    taken = {name: one[name] for name in ("photo", "start", "read", "written")}
    facts = Facts(**taken, dispatch=dispatch_seconds(1), storage=1e12)  # it is in the photo's time
    real = {1: one["seconds"], 2: measure(count, side, 2, 0)["seconds"]}
    ratios = {
        f"real_to_simulated_{workers}": seconds / simulate(facts, workers, count)["seconds"]
        for workers, seconds in real.items()
    }
    return {**taken, "dispatch": facts.dispatch, **ratios}


def nothing(*_: object) -> Iterator[Any]:
    """Make no cube."""
    yield from ()


def dispatch_seconds(workers: int, jobs: int = 400) -> float:
    """Seconds of the processor of client and scheduler for one photo, of which nothing is made."""
    with TemporaryDirectory() as temporary, connected(workers, "") as (client, _):
        each = [
            BatchJob(Path(temporary, str(n)), Path(temporary, f"{n}.hdr"), "") for n in range(jobs)
        ]
        batch = Batch(nothing, nothing)  # type: ignore[arg-type]
        list(outcomes(batch, each[:20], client))
        before = time.process_time()
        list(outcomes(batch, each, client))
        return (time.process_time() - before) / jobs


def main() -> None:
    """Print what was measured or simulated, as JSON, one line a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "what", choices=["compare", "kill", "check", "measure", "dispatch", "simulate"]
    )
    parser.add_argument("--photos", type=int, default=40)
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="+", default=[2])
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--facts", type=json.loads, default={}, help="fields of Facts, as JSON")
    given = parser.parse_args()
    kinds: dict[str, Callable[[int], dict[str, float]]] = {
        "compare": lambda workers: compare(given.photos, given.side, workers),
        "kill": lambda workers: kill(given.photos, given.side, workers, given.kills),
        "check": lambda _: check(given.photos, given.side),
        "measure": lambda workers: measure(given.photos, given.side, workers, given.kills),
        "dispatch": lambda workers: {"dispatch": dispatch_seconds(workers)},
        "simulate": lambda workers: {
            "workers": workers,
            **simulate(Facts(**given.facts), workers, given.photos),
            **limits(Facts(**given.facts)),
        },
    }
    for workers in given.workers:
        found = kinds[given.what](workers)
        print(json.dumps({name: round(value, 4) for name, value in found.items()}), flush=True)


if __name__ == "__main__":
    main()
