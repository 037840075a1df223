// What can be seen of a cube.

import { codeOf } from "./photo.js";

/** The 31 numbers of a pixel; null where the photo is transparent. */
export function spectrumAt({ values, height, width }, row, column) {
  const count = height * width;
  if (Number.isNaN(values[row * width + column])) return null;
  return Array.from({ length: 31 }, (_, band) => values[band * count + row * width + column]);
}

/** The picture of a cube under a lamp, whose weights take 31 bands to red, green and blue. */
export function underLamp({ values, height, width }, weights) {
  const count = height * width;
  const picture = new ImageData(width, height);
  const sum = new Float32Array(count);
  for (let channel = 0; channel < 3; channel++) {
    sum.fill(0);
    weights.forEach((row, band) => {
      for (let pixel = 0, at = band * count; pixel < count; pixel++) sum[pixel] += row[channel] * values[at + pixel];
    });
    for (let pixel = 0; pixel < count; pixel++) picture.data[4 * pixel + channel] = codeOf(sum[pixel]);
  }
  return visible(picture, values);
}

/** One band in grey: reflectance 1 is white. */
export function ofBand({ values, height, width }, band) {
  const picture = new ImageData(width, height);
  const count = height * width;
  for (let pixel = 0; pixel < count; pixel++) picture.data.fill(codeOf(values[band * count + pixel]), 4 * pixel, 4 * pixel + 3);
  return visible(picture, values);
}

/** Make all pixels of a picture opaque but those that are unknown. */
function visible(picture, values) {
  for (let pixel = 0; 4 * pixel < picture.data.length; pixel++) picture.data[4 * pixel + 3] = Number.isNaN(values[pixel]) ? 0 : 255;
  return picture;
}

/** The angle between two spectra in degrees: 0 where they differ in brightness alone. */
export function angle(one, other) {
  const product = (a, b) => a.reduce((sum, value, band) => sum + value * b[band], 0);
  const cosine = product(one, other) / Math.sqrt(product(one, one) * product(other, other));
  return (Math.acos(Math.min(1, cosine)) * 180) / Math.PI;
}
