// The page: what a person does, and what it shows.

import { angle, ofBand, spectrumAt, underLamp } from "./cube.js";
import { reconstruct, sides } from "./network.js";
import { draw } from "./plot.js";
import { readPhoto } from "./photo.js";
import { saveCube, saveSpectra } from "./save.js";

const COLOURS = ["#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#0072b2"]; // Okabe and Ito
const part = (id) => document.getElementById(id);
const tables = await fetch("tables.json")
  .then((answer) => answer.json())
  .catch(() => {
    part("status").textContent = "The page did not load as a whole. Check the connection, and reload it.";
    throw new Error("tables.json");
  });
const { wavelengths } = tables;

const state = { model: tables.models[0], photo: null, cube: null, cursor: null, kept: [], job: 0 };

/** Compute the cube of the photo, and show it unless another one was asked for meanwhile. */
async function run() {
  const job = ++state.job;
  const { photo, model } = state;
  state.cube = null;
  changed();
  part("status").textContent = `Computing ${photo.width} x ${photo.height} x 31 numbers …`;
  const start = performance.now();
  const cube = await reconstruct(model, photo);
  if (job !== state.job) return;
  state.cube = cube;
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const scaled = photo.isScaled ? ", scaled down to a megapixel" : "";
  const where = cube.onGpu ? " on the GPU" : "";
  const hidden = photo.unknown.includes(1) ? ", without the transparent ones" : "";
  part("status").textContent = `${photo.width} x ${photo.height} pixels${scaled}${hidden}, in ${seconds} s${where}. Nothing left this computer.`;
  state.kept = state.kept.map(({ row, column }) => ({ row, column, spectrum: spectrumAt(cube, row, column) }));
  await look(state.cursor ?? { row: photo.height >> 1, column: photo.width >> 1 });
  changed();
}

async function open(source) {
  try {
    part("status").textContent = "Reading the photo …";
    const photo = await readPhoto(source);
    Object.assign(state, { photo, cursor: null, kept: [] });
    await run();
  } catch (error) {
    part("status").textContent = error.message;
  }
}

/** Put the cursor on a pixel: its spectrum at once, its band as soon as it is there. */
async function look(cursor) {
  if (!state.cube) return;
  const spectrum = spectrumAt(state.cube, cursor.row, cursor.column);
  state.cursor = { ...cursor, spectrum };
  plot();
  if (!spectrum) {
    part("readout").textContent = `Row ${cursor.row}, column ${cursor.column}: transparent, so its spectrum is unknown.`;
    return;
  }
  const around = await sides(spectrum, state.model, tables);
  if (state.cursor?.spectrum !== spectrum) return;
  state.cursor.sides = around;
  plot();
}

function keep() {
  if (!state.cursor?.spectrum || state.kept.length === COLOURS.length) return;
  state.kept.push(state.cursor);
  changed();
}

function plot() {
  const kept = state.kept.map((each, number) => ({ spectrum: each.spectrum, colour: COLOURS[number] }));
  const curves = state.cursor?.spectrum ? [state.cursor, ...kept] : kept;
  const band = Number(part("band").value);
  draw(part("plot"), wavelengths, curves, wavelengths[band]);
  if (!state.cursor?.spectrum) return;
  const { row, column, spectrum } = state.cursor;
  part("readout").textContent = `Row ${row}, column ${column}: ${spectrum[band].toFixed(5)} at ${wavelengths[band]} nm.`;
}

/** Show the picture, the list of kept spectra, and what can be done now. */
function changed() {
  const { photo, cube, kept } = state;
  const canvas = part("picture");
  const band = Number(part("band").value);
  part("nm").textContent = `${wavelengths[band]} nm`;
  if (photo) {
    const view = cube ? document.querySelector("[name=view]:checked").value : "photo";
    Object.assign(canvas, { width: photo.width, height: photo.height });
    const lamp = tables.lamps[part("lamp").selectedIndex];
    const picture = { photo: () => photo.shown, lamp: () => underLamp(cube, lamp.weights), band: () => ofBand(cube, band) }[view]();
    const pen = canvas.getContext("2d");
    pen.putImageData(picture, 0, 0);
    kept.forEach(({ row, column }, number) => ring(pen, column, row, COLOURS[number], photo.width / canvas.clientWidth));
  }
  part("kept").replaceChildren(...kept.map((each, number) => item(each, number)));
  part("envi").disabled = !cube;
  part("csv").disabled = part("clear").disabled = !kept.length;
  plot();
}

function ring(pen, column, row, colour, scale) {
  for (const [width, stroke] of [[4, "#000"], [2, colour]]) {
    pen.beginPath();
    pen.arc(column + 0.5, row + 0.5, 6 * scale, 0, 2 * Math.PI);
    Object.assign(pen, { lineWidth: width * scale, strokeStyle: stroke });
    pen.stroke();
  }
}

function item({ row, column, spectrum }, number) {
  const line = document.createElement("li");
  line.style.color = COLOURS[number];
  const apart = number ? `: ${angle(state.kept[0].spectrum, spectrum).toFixed(1)} degrees from the first` : "";
  line.textContent = `row ${row}, column ${column}${apart}`;
  return line;
}

function pixelUnder(event) {
  const box = part("picture").getBoundingClientRect();
  const place = (at, start, length, side) => Math.min(side - 1, Math.max(0, Math.floor(((at - start) / length) * side)));
  const { height, width } = state.photo;
  return { row: place(event.clientY, box.top, box.height, height), column: place(event.clientX, box.left, box.width, width) };
}

function moveByKey(event) {
  const [down, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [0, 0];
  if (event.key === "Enter") keep();
  if (!state.cursor || (!down && !across)) return;
  event.preventDefault();
  const inside = (value, side) => Math.min(side - 1, Math.max(0, value));
  const { height, width } = state.photo;
  look({ row: inside(state.cursor.row + down, height), column: inside(state.cursor.column + across, width) });
}

function setUp() {
  part("model").append(...tables.models.map(({ title }) => new Option(title)));
  part("lamp").append(...tables.lamps.map(({ title }) => new Option(title)));
  Object.assign(part("band"), { min: 0, max: wavelengths.length - 1, value: 20 });

  const show = (view) => {
    document.querySelector(`[name=view][value=${view}]`).checked = true;
    changed();
  };
  part("picture").onpointermove = (event) => state.photo && look(pixelUnder(event));
  part("picture").onclick = (event) => state.cube && look(pixelUnder(event)).then(keep);
  part("picture").onkeydown = moveByKey;
  part("band").oninput = () => show("band");
  part("lamp").onchange = () => show("lamp");
  document.querySelectorAll("[name=view]").forEach((each) => (each.onchange = changed));
  part("model").onchange = (event) => {
    state.model = tables.models[event.target.selectedIndex];
    run().catch((error) => (part("status").textContent = error.message));
  };
  part("file").onchange = ({ target }) => target.files[0] && open(target.files[0]);
  part("csv").onclick = () => saveSpectra(wavelengths, state.kept);
  part("envi").onclick = () => saveCube(wavelengths, state.cube, state.model);
  part("clear").onclick = () => {
    state.kept = [];
    changed();
  };
  addEventListener("resize", changed);
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("dragenter", () => part("drop").classList.add("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    part("drop").classList.remove("over");
    if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
  });
}

setUp();
open("coffee.jpg");
