#!/bin/bash
# One would guess: when all clients of dask.distributed are closed, dask computes by its own threads again, as before the first one,
# in whatever order they were closed.
# What happens: each client remembers the scheduler of dask's configuration when it is made, and restores that when it is closed. Two
# that are closed in the order in which they were made leave "dask.distributed" behind, and every later `compute` of the
# program fails, also that of xarray where it writes netCDF. A library makes its clients with `set_as_default=False`.
# Seen with dask and distributed 2026.8.0:
#   the last one is closed first: None 4.0
#   the first one is closed first: dask.distributed RuntimeError
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q "dask[array]==2026.8.0" distributed==2026.8.0 numpy==2.4.6
cat > "$work/try.py" <<'PY'
import dask.array
from distributed import Client, LocalCluster

with LocalCluster(n_workers=1, processes=False, dashboard_address=None, silence_logs=50) as cluster:
    for name, order in (("last", -1), ("first", 1)):
        clients = [Client(cluster.scheduler_address) for _ in range(2)]
        for client in clients[::order]:
            client.close()
        try:
            result = str(dask.array.ones(4, chunks=2).sum().compute())
        except RuntimeError:
            result = "RuntimeError"
        print(f"the {name} one is closed first:", dask.config.get("scheduler", None), result)
PY
cd "$work"
"$work/venv/bin/python" try.py 2>/dev/null | tee said.txt
diff said.txt - <<'SAID'
the last one is closed first: None 4.0
the first one is closed first: dask.distributed RuntimeError
SAID
