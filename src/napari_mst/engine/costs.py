"""The time of a run, told ahead, so that progress moves as time does."""

import torch

from napari_mst.engine.plan import Plan
from napari_mst.engine.schedule import Schedule, Slot, Sweep, schedule, thrifty
from napari_mst.engine.steps import precisions, steps_of
from napari_mst.networks.network import Program

# The bundled pixelwise network makes 10,752 of them a pixel. In torch it took 0.8 us a pixel: time
# of the processor, of one thread.
PACE = 75e-6
"""Microseconds of one thread for a multiplication and addition of a pass without a fast form."""

# The host of a virtual machine took 2 to 3 ns a byte (lab/benchmarks/README.md). A run cannot know
# whether it has one, so it expects half.
FRESH = 0.0011
"""Microseconds for a byte of memory that is used for the first time.

It is half of the time where a virtual machine gets it from its host; elsewhere it takes next to
none.
"""


def run_cost(program: Program, device: torch.device, plan: Plan) -> float:
    """The time of a run: microseconds a pixel of the photo, of one thread of a CPU."""
    planned = schedule(thrifty(program, plan.dtype(program.dtype)))
    return sum(sweep_costs(planned, device, plan))


def sweep_costs(planned: Schedule, device: torch.device, plan: Plan) -> list[float]:
    """The time of each sweep, in the unit of `run_cost`."""
    program = planned.program
    dtypes = precisions(program, plan.dtype(program.dtype), program.dtype)
    _, places = planned.storage(program.multiple, program.multiple, 1, 1)
    used: set[Slot] = set()
    costs = []
    for sweep in planned.sweeps:
        fresh = [name for name in sweep.keeps if places[name] not in used]
        computing = _computing_cost(program, sweep, device, dtypes)
        costs.append(computing + _memory_cost(program, fresh, dtypes))
        used |= {places[name] for name in sweep.keeps}
    return costs


def _computing_cost(
    program: Program, sweep: Sweep, device: torch.device, dtypes: dict[str, torch.dtype]
) -> float:
    scales = program.scales
    cost = 0.0
    for step in steps_of(sweep, device, dtypes):
        pace = step.form.pace if step.form is not None else PACE
        cost += sum(pace * each.cost * float(scales[each.writes]) ** 2 for each in step.passes)
    return cost


def _memory_cost(program: Program, names: list[str], dtypes: dict[str, torch.dtype]) -> float:
    """The cost of memory that the maps *names* are the first to use."""
    cost = 0.0
    for name in names:
        size = program.channels(name) * dtypes[name].itemsize
        cost += FRESH * size * float(program.scales[name]) ** 2
    return cost
