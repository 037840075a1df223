// The plot of spectra over their wavelengths.

const MARGIN = { left: 44, right: 10, top: 10, bottom: 34 };

/** Draw curves { spectrum, sides?, colour }, and a line at a wavelength; reflectance from 0 to 1, or more if needed. */
export function draw(canvas, wavelengths, curves, mark) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const style = getComputedStyle(canvas);
  const ink = style.getPropertyValue("color");
  const top = Math.max(1, ...curves.flatMap(({ spectrum }) => spectrum));
  const [first, last] = [wavelengths[0], wavelengths.at(-1)];
  const x = (nm) => MARGIN.left + ((nm - first) / (last - first)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => height - MARGIN.bottom - (Math.min(value, top) / top) * (height - MARGIN.top - MARGIN.bottom);

  pen.font = "13px system-ui, sans-serif";
  axes(pen, { x, y, first, last, top, ink, width, height });
  line(pen, [[x(mark), y(0)], [x(mark), y(top)]], ink, [4, 4]);
  for (const { spectrum, sides, colour } of curves) {
    if (sides) area(pen, wavelengths, sides, x, y, ink);
    line(pen, spectrum.map((value, band) => [x(wavelengths[band]), y(value)]), colour ?? ink);
  }
}

function axes(pen, { x, y, first, last, top, ink, width, height }) {
  pen.fillStyle = pen.strokeStyle = ink;
  pen.globalAlpha = 0.25;
  for (let value = 0; value <= top; value += 0.25) pen.fillRect(x(first), y(value), x(last) - x(first), 1);
  pen.globalAlpha = 1;
  pen.textAlign = "right";
  for (let value = 0; value <= top; value += 0.5) pen.fillText(value.toFixed(1), x(first) - 8, y(value) + 4);
  pen.textAlign = "center";
  for (let nm = first; nm <= last; nm += 100) pen.fillText(nm, Math.min(x(nm), width - 14), height - MARGIN.bottom + 16);
  pen.fillText("wavelength (nm)", (x(first) + x(last)) / 2, height - 2);
  pen.save();
  pen.translate(12, (y(0) + y(top)) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText("reflectance", 0, 0);
  pen.restore();
}

function area(pen, wavelengths, { lower, upper }, x, y, ink) {
  const there = upper.map((value, band) => [x(wavelengths[band]), y(value)]);
  const back = lower.map((value, band) => [x(wavelengths[band]), y(value)]).reverse();
  pen.beginPath();
  [...there, ...back].forEach(([across, down]) => pen.lineTo(across, down));
  pen.globalAlpha = 0.18;
  pen.fillStyle = ink;
  pen.fill();
  pen.globalAlpha = 1;
}

function line(pen, points, colour, dash = []) {
  pen.beginPath();
  points.forEach(([across, down]) => pen.lineTo(across, down));
  pen.strokeStyle = colour;
  pen.lineWidth = dash.length ? 1 : 2;
  pen.setLineDash(dash);
  pen.stroke();
  pen.setLineDash([]);
}
