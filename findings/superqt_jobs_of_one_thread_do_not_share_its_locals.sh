#!/bin/bash
# One would guess: what a library keeps in `threading.local` lives as long as the thread, so a second job of napari's
# `thread_worker` (superqt's) on the same thread finds what the first one has left there.
# What happens: the threads belong to Qt's pool, not to Python. Python makes a new thread state for each job and drops it at its end,
# and all thread-locals with it, although the operating system's thread is the same. Each job of a library that caches by thread
# (connections, contexts, plans) begins anew, and its clean-up for a thread that ends runs while the thread goes on.
# What helps: run the job on a `ThreadPoolExecutor` of Python's, and have the worker wait for its result.
# Seen with superqt 0.9.0, PyQt6 6.11.0 (PySide6 6.11.0 does the same):
#   superqt 0.9.0: two jobs, one thread: True; the second finds what the first left: False
#   threading.Thread: two jobs, one thread: True; the second finds what the first left: True
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q superqt==0.9.0 pyqt6==6.11.0 qtpy==2.4.3
cat > "$work/jobs.py" <<'PY'
import threading
import time

import superqt
from qtpy.QtCore import QCoreApplication
from superqt.utils import create_worker

application = QCoreApplication([])
of_thread = threading.local()
seen = []


def job():
    seen.append((threading.get_native_id(), hasattr(of_thread, "kept")))
    of_thread.kept = True


def report(name):
    (first, _), (second, is_found) = seen
    print(f"{name}: two jobs, one thread: {first == second}; the second finds what the first left: {is_found}")
    seen.clear()


for _ in range(2):
    worker, ended = create_worker(job), []
    worker.finished.connect(lambda: ended.append(True))
    worker.start()
    while not ended:
        application.processEvents()
        time.sleep(0.01)
report(f"superqt {superqt.__version__}")
thread = threading.Thread(target=lambda: [job(), job()])
thread.start()
thread.join()
report("threading.Thread")
PY
cd "$work"
QT_QPA_PLATFORM=offscreen venv/bin/python jobs.py | tee seen
cat > expected <<'END'
superqt 0.9.0: two jobs, one thread: True; the second finds what the first left: False
threading.Thread: two jobs, one thread: True; the second finds what the first left: True
END
diff expected seen
