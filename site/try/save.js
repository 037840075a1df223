// Files that other programs read.

export function saveSpectra(wavelengths, kept) {
  const heading = ["wavelength (nm)", ...kept.map(({ row, column }) => `row ${row} column ${column}`)];
  const lines = wavelengths.map((nm, band) => [nm, ...kept.map(({ spectrum }) => spectrum[band].toFixed(5))]);
  download("spectra.csv", [[heading, ...lines].map((cells) => cells.join(",")).join("\n") + "\n"], "text/csv");
}

/** Header and numbers of an ENVI file, band by band, in the byte order of all browsers: little-endian. */
export function saveCube(wavelengths, { values, height, width }, model) {
  const header = [
    "ENVI",
    `description = {reflectance estimated from a photo by ${model.name} of napari-mst, in a browser}`,
    `samples = ${width}`,
    `lines = ${height}`,
    `bands = ${wavelengths.length}`,
    "header offset = 0",
    "file type = ENVI Standard",
    "data type = 4",
    "interleave = bsq",
    "byte order = 0",
    "wavelength units = Nanometers",
    `wavelength = {${wavelengths.join(", ")}}`,
  ];
  download("cube.hdr", [header.join("\n") + "\n"], "text/plain");
  download("cube.img", [values], "application/octet-stream");
}

function download(name, parts, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
