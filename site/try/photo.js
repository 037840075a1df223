// Image files as linear light.

export const MOST_PIXELS = 2 ** 20;

/** { linear, shown, height, width } of a file or an address; larger photos are scaled down to a megapixel. */
export async function readPhoto(source) {
  const blob = source instanceof Blob ? source : await (await fetch(source)).blob();
  const image = await createImageBitmap(blob).catch(() => {
    throw new Error("This is no image that a browser can read. Take a JPEG or PNG file.");
  });
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (image.width * image.height)));
  const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)));
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  const shown = context.getImageData(0, 0, width, height);
  return { linear: linearOf(shown.data), shown, height, width, isScaled: scale < 1 };
}

function linearOf(codes) {
  const light = Float32Array.from({ length: 256 }, (_, code) => toLinear(code / 255));
  const count = codes.length / 4;
  const linear = new Float32Array(3 * count);
  for (let channel = 0; channel < 3; channel++)
    for (let pixel = 0; pixel < count; pixel++) linear[channel * count + pixel] = light[codes[4 * pixel + channel]];
  return linear;
}

// sRGB, IEC 61966-2-1:1999.
const toLinear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const toCode = (value) => 255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055);

const STEPS = 4096;
const CODES = Uint8ClampedArray.from({ length: STEPS + 1 }, (_, step) => toCode(step / STEPS));
export const codeOf = (value) => CODES[Math.round(STEPS * Math.min(1, Math.max(0, value)))];
