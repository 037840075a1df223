// Photos in, cubes out. A cube is { values, height, width }, its values band by band, reflectance 0 to about 1.

const worker = new Worker("worker.js", { type: "module" });
const waiting = new Map();
let last = 0;
let isBroken = false;
const BROKEN = "The network did not load: nothing can be computed. Check the connection, reload the page, or take another browser.";

worker.onerror = () => {
  isBroken = true;
  waiting.forEach(({ reject }) => reject(new Error(BROKEN)));
  waiting.clear();
};

worker.onmessage = ({ data: { id, error, ...result } }) => {
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  error ? reject(new Error(error)) : resolve(result);
};

function run(file, values, height, width, onGpu = false) {
  if (isBroken) return Promise.reject(new Error(BROKEN));
  const id = ++last;
  worker.postMessage({ id, file, values, height, width, onGpu });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

/** The cube of a photo of linear light by a model of `tables.json`, which says to which multiple sides are padded; NaN where it is unknown. */
export async function reconstruct(model, { linear, unknown, height, width }) {
  const [rows, columns] = [height, width].map((side) => Math.ceil(side / model.multiple) * model.multiple);
  const padded = cut(linear, 3, [height, width], [rows, columns]);
  const { values, onGpu } = await run(model.file, padded, rows, columns, model.multiple > 1);
  const cube = cut(values, 31, [rows, columns], [height, width]);
  const count = height * width;
  unknown.forEach((isUnknown, pixel) => {
    for (let at = pixel; isUnknown && at < cube.length; at += count) cube[at] = NaN;
  });
  return { values: cube, height, width, onGpu };
}

/** Planes of another size: cropped, or reflected at their last row and column, as the program does. */
function cut(values, planes, [height, width], [rows, columns]) {
  const result = new Float32Array(planes * rows * columns);
  const inside = (place, side) => Math.max(0, place < side ? place : 2 * (side - 1) - place);
  for (let plane = 0, at = 0; plane < planes; plane++)
    for (let row = 0; row < rows; row++) {
      const start = (plane * height + inside(row, height)) * width;
      for (let column = 0; column < columns; column++) result[at++] = values[start + inside(column, width)];
    }
  return result;
}

/** The lower and upper spectrum between which nine in ten true ones lie; docs/prediction_intervals.md has the formula. */
export async function sides(spectrum, model, tables) {
  const colour = tables.response[0].map((_, c) => spectrum.reduce((sum, value, b) => sum + value * tables.response[b][c], 0));
  const [lower, middle, upper] = split((await run(tables.distances, Float32Array.from(colour), 1, 1)).values);
  const away = (b, distance) => Math.hypot(model.factor[b] * distance, model.doubt[b] * spectrum[b]) + tables.instrument[b];
  const [darker, brighter] = model.brightness;
  return {
    lower: spectrum.map((value, b) => darker * Math.max(value - away(b, middle[b] - lower[b]), 0)),
    upper: spectrum.map((value, b) => brighter * (value + away(b, upper[b] - middle[b]))),
  };
}

function split(values) {
  return [0, 31, 62].map((start) => values.slice(start, start + 31));
}
