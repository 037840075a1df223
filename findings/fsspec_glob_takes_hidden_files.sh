#!/bin/bash
# One would guess: `glob("*.jpg")` of an fsspec file system gives the files that Python's glob.glob and a shell give: none whose name
# begins with a dot. Folders that a Mac has copied hold "._photo.jpg", 4 kB of attributes, beside every photo.jpg.
# What happens: fsspec gives the hidden files, too, on local folders as well as in memory (and on S3). A batch over
# "s3://bucket/*.jpg" gets twice as many photos, half of which are none.
# Seen with fsspec 2026.9.0:
#   glob.glob: a.jpg
#   fsspec, local: ._a.jpg a.jpg
#   fsspec, memory: ._a.jpg a.jpg
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q fsspec==2026.9.0
cat > "$work/try.py" <<'PY'
import glob
from pathlib import PurePosixPath

from fsspec import filesystem

names = ("a.jpg", "._a.jpg")
memory = filesystem("memory")
for name in names:
    open(name, "wb").close()
    memory.pipe(f"/{name}", b"")


def shown(found):
    return " ".join(sorted(PurePosixPath(each).name for each in found))


print("glob.glob:", shown(glob.glob("*.jpg")))
print("fsspec, local:", shown(filesystem("file").glob("*.jpg")))
print("fsspec, memory:", shown(memory.glob("/*.jpg")))
PY
cd "$work"
"$work/venv/bin/python" try.py | tee said.txt
diff said.txt - <<'SAID'
glob.glob: a.jpg
fsspec, local: ._a.jpg a.jpg
fsspec, memory: ._a.jpg a.jpg
SAID
