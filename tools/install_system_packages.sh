#!/bin/sh
# Installs what Python, Qt and OpenGL need from Debian or Ubuntu, and the packages that it is given, where they are missing;
# elsewhere it says what that is.
# It never waits for an answer, neither of sudo nor of a package.
set -eu

# libglib2.0-bin stands for the library itself, whose package is named differently in Debian 12 and 13.
packages="
    xvfb xauth fonts-dejavu-core
    libgl1 libgl1-mesa-dri libegl1 libopengl0
    libdbus-1-3 libfontconfig1 libglib2.0-bin libxkbcommon-x11-0
    libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-randr0 libxcb-render-util0
    libxcb-shape0 libxcb-sync1 libxcb-xfixes0 libxcb-xinerama0 libxcb-xkb1
"

has_venv() {
    "${PYTHON:-python3}" -c "import ensurepip, venv" 2>/dev/null
}

if ! command -v apt-get >/dev/null; then
    [ "$(uname)" != Linux ] || command -v xvfb-run >/dev/null ||
        echo "note: no apt-get here. Qt needs the OpenGL, EGL and xcb libraries; without a display, also xvfb-run." >&2
    has_venv || { echo "Expected Python 3.11 or newer with venv as ${PYTHON:-python3}. Install it." >&2; exit 1; }
    exit 0
fi

missing=""
has_venv || missing="python3-venv"
for package in $packages "$@"; do
    dpkg-query --show --showformat='${Status}' "$package" 2>/dev/null | grep -q "ok installed" ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=""
if [ "$(id -u)" != 0 ]; then
    sudo="sudo -n"
    $sudo true 2>/dev/null || { echo "Missing packages. Run: sudo apt-get install$missing" | tr -s ' ' >&2; exit 1; }
fi
echo "Installing system packages, for some minutes:$missing" | tr -s ' '
$sudo apt-get update -qq
# shellcheck disable=SC2086  # the list is meant to be split
$sudo env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get install -qq -y --no-install-recommends $missing
