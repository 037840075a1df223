"""Many photos on many workers: measured on this computer, and simulated for larger clusters.

python -m lab.clusters measure --photos 40 --workers 2 --kills 5
python -m lab.clusters simulate --photos 1000000 --workers 10 10000 --facts '{"photo": 40}'
"""

import argparse
import heapq
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psutil
from PIL import Image

from napari_mst import reconstruct_many
from napari_mst.batch.batch import Batch
from napari_mst.batch.execution import connected, outcomes
from napari_mst.batch.jobs import BatchJob

MODEL = "mstpp-photo"


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
    """Seconds of the processor that this process and those below it have had."""
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
    parser.add_argument("what", choices=["measure", "dispatch", "simulate"])
    parser.add_argument("--photos", type=int, default=40)
    parser.add_argument("--side", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--facts", type=json.loads, default={}, help="fields of Facts, as JSON")
    given = parser.parse_args()
    for workers in given.workers:
        if given.what == "measure":
            found = measure(given.photos, given.side, workers, given.kills)
        elif given.what == "dispatch":
            found = {"dispatch": dispatch_seconds(workers)}
        else:
            facts = Facts(**given.facts)
            found = {"workers": workers, **simulate(facts, workers, given.photos), **limits(facts)}
        print(json.dumps({name: round(value, 4) for name, value in found.items()}), flush=True)


if __name__ == "__main__":
    main()
