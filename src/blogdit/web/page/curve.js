// Violations, or the objective, of every chain over the steps.

import { colourOf, fit, make, theme } from "./shapes.js";

const [LEFT, RIGHT] = [46, 8]; // margins in pixels

export class Curve {
  constructor() {
    this.element = make("canvas", "curve");
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", "curve of every chain");
    this.element.title = "A line for every chain; the thick one is in the picture. Click to go there.";
    this.onPick = null; // gets the number of a step
    this.element.addEventListener("click", (event) => {
      const share = (event.offsetX - LEFT) / (this.element.clientWidth - LEFT - RIGHT);
      this.onPick?.(Math.round(Math.max(0, Math.min(1, share)) * (this.length - 1)) + 1);
    });
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.series = [];
  }

  // Lines of numbers (null where there is none), where on the axis we are, what its end is called, and where the other
  // axis begins.
  set(series, cursor, label, end = null, fromZero = false) {
    Object.assign(this, { series, cursor, label, end, fromZero });
    this.draw();
  }

  draw() {
    if (!this.element.clientWidth || !this.series.length) return;
    const { context, width, height } = fit(this.element);
    const colours = theme();
    const length = Math.max(...this.series.map((line) => line.length), 2);
    this.length = length;
    let [low, high] = [this.fromZero ? 0 : Infinity, -Infinity];
    for (const value of this.series.flat()) {
      if (value === null || !Number.isFinite(value)) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    if (!(low <= high)) [low, high] = [0, 1];
    if (low === high) high = low + 1;
    const [left, right, top, bottom] = [LEFT, RIGHT, 18, 18];
    const x = (step) => left + ((width - left - right) * step) / (length - 1);
    const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low));
    context.clearRect(0, 0, width, height);
    Object.assign(context, { font: "11px system-ui, sans-serif", fillStyle: colours.soft, strokeStyle: colours.line });
    context.strokeRect(left, top, width - left - right, height - top - bottom);
    context.textAlign = "right";
    context.fillText(short(high), left - 4, top + 8);
    context.fillText(short(low), left - 4, height - bottom);
    context.textAlign = "left";
    context.fillText(this.label, left, 12);
    if (this.end === null) context.fillText("1", left, height - 5);
    context.textAlign = "right";
    context.fillText(this.end ?? String(length), width - right, height - 5);
    this.series.forEach((line, chain) => {
      context.beginPath();
      let open = false;
      line.forEach((value, step) => {
        if (value === null || !Number.isFinite(value)) return (open = false);
        if (open) context.lineTo(x(step), y(value));
        else context.rect(x(step) - 0.5, y(value) - 0.5, 1, 1); // to be seen also where it is alone
        if (!open) context.moveTo(x(step), y(value));
        open = true;
      });
      const first = chain === 0;
      Object.assign(context, { strokeStyle: colourOf(chain), lineWidth: first ? 2.2 : 1, globalAlpha: first ? 1 : 0.8 });
      context.setLineDash(chain >= 8 ? [4, 3] : []);
      context.stroke();
    });
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (this.cursor !== null && this.cursor >= 0) {
      context.strokeStyle = colours.ink;
      context.beginPath();
      context.moveTo(x(Math.min(this.cursor, length - 1)), top);
      context.lineTo(x(Math.min(this.cursor, length - 1)), height - bottom);
      context.stroke();
    }
  }
}

function short(number) {
  const size = Math.abs(number);
  return size >= 1e5 || (size < 0.01 && size > 0) ? number.toExponential(1) : String(Number(number.toPrecision(3)));
}
