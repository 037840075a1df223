// Image files as linear light.

export const MOST_PIXELS = 2 ** 20;

/**
 * { linear, shown, unknown, height, width } of a file or an address; larger photos are scaled down to a megapixel.
 * `unknown` has a 1 for each pixel that is more transparent than not: nobody knows its colour.
 */
export async function readPhoto(source) {
  const blob = source instanceof Blob ? source : await (await fetch(source)).blob();
  const head = new DataView(await blob.slice(0, 2 ** 18).arrayBuffer());
  if (isHighRange(head)) throw new Error("This photo is coded for a high dynamic range (HDR). Export it in standard range (SDR).");
  // The browser converts what a profile or a PNG states to sRGB, to within a code of LittleCMS.
  const image = await createImageBitmap(blob).catch(() => {
    if (isHeif(head)) throw new Error("This browser does not read HEIC. Safari does, and so does the program; or save it as JPEG.");
    throw new Error("This is no image that a browser can read. Take a JPEG or PNG file.");
  });
  const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (image.width * image.height)));
  const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)));
  const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(image, 0, 0, width, height);
  const shown = context.getImageData(0, 0, width, height);
  if (isAdobeByExif(head)) fromAdobe(shown.data);
  const unknown = Uint8Array.from({ length: width * height }, (_, pixel) => shown.data[4 * pixel + 3] < 128);
  return { linear: linearOf(shown.data, unknown), shown, unknown, height, width, isScaled: scale < 1 };
}

function linearOf(codes, unknown) {
  const light = Float32Array.from({ length: 256 }, (_, code) => toLinear(code / 255));
  const count = codes.length / 4;
  const linear = new Float32Array(3 * count);
  for (let channel = 0; channel < 3; channel++)
    for (let pixel = 0; pixel < count; pixel++)
      if (!unknown[pixel]) linear[channel * count + pixel] = light[codes[4 * pixel + channel]];
  return linear;
}

const text = (view, at, length) => String.fromCharCode(...new Uint8Array(view.buffer, at, length));

function isHeif(head) {
  return head.byteLength > 12 && text(head, 4, 4) === "ftyp" && /^(hei|hev|mif1|msf1)/.test(text(head, 8, 4));
}

/** Whether a PNG, AVIF or HEIC has the curve PQ or HLG (ITU-T H.273), of which browsers bend the highlights. */
function isHighRange(head) {
  const start = new TextDecoder("latin1").decode(head);
  const isBoxes = start.startsWith("ftyp", 4);
  const curve = isBoxes ? start.indexOf("colrnclx") + 11 : start.startsWith("PNG", 1) ? start.indexOf("cICP") + 5 : 0;
  return curve > 11 && curve < start.length && [16, 18].includes(head.getUint8(curve));
}

/** Whether only the EXIF data of a JPEG says that it is Adobe RGB (DCF 2.0), which no browser obeys. */
function isAdobeByExif(head) {
  try {
    let adobe = false;
    for (let at = 2; head.getUint16(0) === 0xffd8 && head.getUint8(at) === 0xff; at += 2 + head.getUint16(at + 2)) {
      const mark = head.getUint8(at + 1);
      if (mark === 0xe2 && text(head, at + 4, 11) === "ICC_PROFILE") return false;
      if (mark === 0xe1 && text(head, at + 4, 4) === "Exif") adobe = namesAdobe(new DataView(head.buffer, at + 10));
      if (mark === 0xda) break; // the pixels
    }
    return adobe;
  } catch {
    return false; // damaged, or longer than the head
  }
}

function namesAdobe(tiff) {
  const isLittle = tiff.getUint16(0) === 0x4949;
  const find = (folder, tag) => {
    for (let entry = 0; folder && entry < tiff.getUint16(folder, isLittle); entry++) {
      const at = folder + 2 + 12 * entry;
      if (tiff.getUint16(at, isLittle) === tag) return at + 8;
    }
    return 0;
  };
  const below = (folder, tag) => (find(folder, tag) ? tiff.getUint32(find(folder, tag), isLittle) : 0);
  const exif = below(tiff.getUint32(4, isLittle), 0x8769);
  const index = find(below(exif, 0xa005), 1);
  const space = find(exif, 0xa001);
  const isR03 = index && text(new DataView(tiff.buffer), tiff.byteOffset + index, 3) === "R03";
  return Boolean(isR03 || (space && tiff.getUint16(space, isLittle) === 2));
}

// Adobe RGB (1998): gamma 563/256, and its primaries in linear sRGB.
function fromAdobe(codes) {
  const light = Float64Array.from({ length: 256 }, (_, code) => (code / 255) ** (563 / 256));
  for (let at = 0; at < codes.length; at += 4) {
    const [red, green, blue] = [light[codes[at]], light[codes[at + 1]], light[codes[at + 2]]];
    codes[at] = toCode(1.39836 * red - 0.39836 * green); // the array rounds and clips
    codes[at + 1] = toCode(green);
    codes[at + 2] = toCode(1.04293 * blue - 0.04293 * green);
  }
}

// sRGB, IEC 61966-2-1:1999.
const toLinear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const toCode = (value) => 255 * (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055);

const STEPS = 4096;
const CODES = Uint8ClampedArray.from({ length: STEPS + 1 }, (_, step) => toCode(step / STEPS));
export const codeOf = (value) => CODES[Math.round(STEPS * Math.min(1, Math.max(0, value)))];
