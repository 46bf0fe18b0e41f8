// Where the vertices of a graph are drawn: springs along edges, repulsion between vertices that are near.

const GRAVITY = 0.4; // keeps parts without edges between them in the picture

// Numbers from 0 to 1 that depend on the seed alone (mulberry32).
export function randomNumbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// Coordinates in the unit square, two for each vertex; the same graph is laid out the same way.
export function layout(vertices, edges) {
  if (vertices === 0) return new Float64Array(0);
  const random = randomNumbers(vertices * 7919 + edges.length);
  const place = new Float64Array(2 * vertices);
  for (let i = 0; i < 2 * vertices; i++) place[i] = random();
  const rounds = vertices > 800 ? 40 : vertices > 200 ? 80 : 200;
  const near = 1 / Math.sqrt(Math.max(vertices, 1)); // the distance that an edge likes
  const reach = vertices > 200 ? 3 * near : 4; // of repulsion: in small graphs all vertices push each other
  for (let round = 0; round < rounds; round++) {
    const push = repulsion(place, vertices, reach, near);
    for (const [a, b] of edges) {
      const [dx, dy] = [place[2 * b] - place[2 * a], place[2 * b + 1] - place[2 * a + 1]];
      const pull = (0.5 * Math.hypot(dx, dy)) / near;
      push[2 * a] += dx * pull;
      push[2 * a + 1] += dy * pull;
      push[2 * b] -= dx * pull;
      push[2 * b + 1] -= dy * pull;
    }
    const most = near * 2 * (1 - round / rounds);
    for (let v = 0; v < vertices; v++) {
      push[2 * v] += GRAVITY * (0.5 - place[2 * v]);
      push[2 * v + 1] += GRAVITY * (0.5 - place[2 * v + 1]);
      const length = Math.hypot(push[2 * v], push[2 * v + 1]) || 1;
      const far = Math.min(length, most) / length;
      place[2 * v] += push[2 * v] * far;
      place[2 * v + 1] += push[2 * v + 1] * far;
    }
  }
  return scaled(place);
}

// Only vertices in the same or a neighbouring square of a grid push each other.
function repulsion(place, vertices, reach, near) {
  const push = new Float64Array(2 * vertices);
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let v = 0; v < vertices; v++) {
    left = Math.min(left, place[2 * v]);
    right = Math.max(right, place[2 * v]);
    top = Math.min(top, place[2 * v + 1]);
    bottom = Math.max(bottom, place[2 * v + 1]);
  }
  const columns = Math.floor((right - left) / reach) + 3; // with an empty margin, so that every square has neighbours
  const squares = new Int32Array(columns * (Math.floor((bottom - top) / reach) + 3)).fill(-1);
  const next = new Int32Array(vertices); // the vertices of a square as a chain
  const square = new Int32Array(vertices);
  for (let v = 0; v < vertices; v++) {
    const [x, y] = [Math.floor((place[2 * v] - left) / reach) + 1, Math.floor((place[2 * v + 1] - top) / reach) + 1];
    square[v] = y * columns + x;
    next[v] = squares[square[v]];
    squares[square[v]] = v;
  }
  const around = [-1, 0, 1].flatMap((row) => [-1, 0, 1].map((column) => row * columns + column));
  for (let v = 0; v < vertices; v++) {
    for (let n = 0; n < 9; n++) {
      for (let other = squares[square[v] + around[n]]; other >= 0; other = next[other]) {
        if (other === v) continue;
        const dx = place[2 * v] - place[2 * other];
        const dy = place[2 * v + 1] - place[2 * other + 1];
        const distance = dx * dx + dy * dy + 1e-9;
        const fades = 1 - distance / (reach * reach); // no jump where the reach ends
        if (fades <= 0) continue;
        push[2 * v] += (dx * near * near * fades) / distance;
        push[2 * v + 1] += (dy * near * near * fades) / distance;
      }
    }
  }
  return push;
}

function scaled(place) {
  const bounds = [0, 1].map((axis) => {
    const own = place.filter((_, i) => i % 2 === axis);
    return [own.reduce((a, b) => Math.min(a, b), Infinity), own.reduce((a, b) => Math.max(a, b), -Infinity)];
  });
  return place.map((value, i) => {
    const [low, high] = bounds[i % 2];
    return high > low ? (value - low) / (high - low) : 0.5;
  });
}
