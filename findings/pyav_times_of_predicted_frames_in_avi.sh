#!/bin/bash
# One would guess: the frames that PyAV gives in order have rising times (frame.pts), in AVI as in any container; and no two
# frames of a file share one.
# What happens: AVI stores no times of frames. Where frames are predicted from later ones (B-frames of H.264), FFmpeg takes the
# order in the file for that of the times: the frames come out in their order, but their times step back, the first is not at
# 0 and the last two are equal. Sorting by time, or seeking the nearest one, mixes frames up. The same frames in Matroska have
# rising times.
# Seen with av 18.1.0 (libavformat 62.12.102), 8 frames, one every 200 ms:
#   mkv [0, 200, 400, 600, 800, 1000, 1200, 1400]
#   avi [200, 800, 600, 1000, 400, 1400, 1400, 1200], greys in order
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-input av==18.1.0 numpy==2.4.6
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys
from fractions import Fraction

import av
import numpy as np

print("av", av.__version__, av.library_versions["libavformat"])


def written(suffix):
    path = f"{sys.argv[1]}/clip.{suffix}"
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number in range(8):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 30 + 20 * number, np.uint8))
            frame.pts, frame.time_base = 200 * number, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


times, greys = {}, {}
for suffix in ("mkv", "avi"):
    with av.open(written(suffix)) as container:
        frames = list(container.decode(video=0))
    times[suffix] = [round(1000 * frame.time) for frame in frames]
    greys[suffix] = [int(frame.to_ndarray(format="gray").mean()) for frame in frames]
    print(suffix, times[suffix], greys[suffix])
is_in_order = all(each == sorted(each) for each in greys.values())
is_seen = times["mkv"] == [200 * number for number in range(8)] and times["avi"] != sorted(times["avi"])
sys.exit(not (is_in_order and is_seen and len(set(times["avi"])) < 8))
PYTHON
