// Violations, or the objective, of every chain over the steps.

import { colourOf, fit, make, theme, watchSize } from "./shapes.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [46, 8, 18, 18]; // margins in pixels

export class Curve {
  constructor(label) {
    this.element = make("canvas", "curve");
    this.element.setAttribute("role", "img");
    this.element.setAttribute("aria-label", label);
    this.onPick = null; // gets the number of a step
    this.element.addEventListener("click", (event) => {
      const share = (event.offsetX - LEFT) / (this.element.clientWidth - LEFT - RIGHT);
      this.onPick?.(Math.round(Math.max(0, Math.min(1, share)) * (this.length - 1)) + 1);
    });
    this.series = [];
    watchSize(this.element, () => this.draw());
  }

  // Lines of numbers (null where there is none), where on the axis we are, what its end is called, and where the other
  // axis begins.
  set(series, cursor, label, end = null, fromZero = false) {
    Object.assign(this, { series, cursor, label, end, fromZero });
    this.draw();
  }

  draw() {
    const surface = this.series.length ? fit(this.element) : null;
    if (!surface) return;
    const { context, width, height } = surface;
    const palette = theme();
    const key = [width, height, window.devicePixelRatio, palette.ink, this.label, this.end].join();
    if (this.lines?.series !== this.series || this.lines.key !== key) {
      const canvas = new OffscreenCanvas(this.element.width, this.element.height);
      const within = canvas.getContext("2d");
      within.scale(this.element.width / width, this.element.height / height);
      this.#lines(within, width, height, palette);
      this.lines = { series: this.series, key, canvas };
    }
    context.clearRect(0, 0, width, height);
    context.drawImage(this.lines.canvas, 0, 0, width, height);
    if (this.cursor !== null && this.cursor >= 0) {
      const x = LEFT + ((width - LEFT - RIGHT) * Math.min(this.cursor, this.length - 1)) / (this.length - 1);
      context.strokeStyle = palette.ink;
      context.beginPath();
      context.moveTo(x, TOP);
      context.lineTo(x, height - BOTTOM);
      context.stroke();
    }
  }

  // Everything but the cursor: it changes when a step arrives, and not when one is shown.
  #lines(context, width, height, palette) {
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
    const x = (step) => LEFT + ((width - LEFT - RIGHT) * step) / (length - 1);
    const y = (value) => TOP + (height - TOP - BOTTOM) * (1 - (value - low) / (high - low));
    Object.assign(context, { font: "11px system-ui, sans-serif", fillStyle: palette.soft, strokeStyle: palette.line });
    context.strokeRect(LEFT, TOP, width - LEFT - RIGHT, height - TOP - BOTTOM);
    context.textAlign = "right";
    context.fillText(short(high), LEFT - 4, TOP + 8);
    context.fillText(short(low), LEFT - 4, height - BOTTOM);
    context.textAlign = "left";
    context.fillText(this.label, LEFT, 12);
    if (this.end === null) context.fillText("1", LEFT, height - 5);
    context.textAlign = "right";
    context.fillText(this.end ?? String(length), width - RIGHT, height - 5);
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
  }
}

function short(number) {
  const size = Math.abs(number);
  return size >= 1e5 || (size < 0.01 && size > 0) ? number.toExponential(1) : String(Number(number.toPrecision(3)));
}
