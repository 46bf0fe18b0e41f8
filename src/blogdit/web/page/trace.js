// A run as a trace tells it: the question, every step, the result. Any moment of it can be looked at.

const CHECKPOINT = 64; // steps between two states that are kept whole: going back replays at most so many

// The variables of each constraint, group after group, as the numbers of a trace count them.
export function scopesOf(question) {
  const scopes = [];
  for (const group of question.constraints ?? []) {
    if (group.weight !== undefined) continue; // soft ones are not violated, they cost
    const rows = group.pairs ?? group.scopes ?? [];
    rows.forEach((row, index) => {
      const more = group.results === undefined ? [] : [group.results[index]];
      scopes.push({ kind: group.kind, variables: [...row, ...more] });
    });
  }
  return scopes;
}

export class Run {
  constructor(record) {
    this.question = record.question;
    this.settings = record.settings ?? null;
    this.name = record.instance;
    this.size = record.question.domain_sizes.length;
    this.scopes = scopesOf(record.question);
    this.given = new Map(record.question.givens ?? []);
    this.steps = [];
    this.result = null;
    this.checkpoints = new Map();
    this.best = []; // after each step: the best answer so far
  }

  add(record) {
    if (record.result) {
      this.result = record.result;
      this.complete = record.complete !== false;
    } else if (record.step) {
      this.steps.push(record);
      this.best.push(record.best ?? this.best.at(-1) ?? null);
    }
  }

  // Positions 0 (the question) to `last`: the steps, and the answer if there is one.
  get last() {
    return this.steps.length + (this.result ? 1 : 0);
  }

  get optimises() {
    return this.question.objective !== undefined || (this.question.constraints ?? []).some((g) => g.weight !== undefined);
  }

  start() {
    const values = new Int32Array(this.size).fill(-1);
    for (const [variable, value] of this.given) values[variable] = value;
    return { values, sure: new Float32Array(this.size) };
  }

  // Values and confidences after a number of steps; -1 is an open variable.
  #reach(number) {
    let from = number - (number % CHECKPOINT);
    while (from > 0 && !this.checkpoints.has(from)) from -= CHECKPOINT;
    const kept = this.checkpoints.get(from) ?? this.start();
    const state = { values: kept.values.slice(), sure: kept.sure.slice() };
    for (let at = from; at < number; at++) {
      const step = this.steps[at];
      if (step.values) {
        state.values.set(step.values);
        step.sure.forEach((sure, variable) => (state.sure[variable] = sure / 100));
      } else {
        step.changed.forEach((variable, i) => (state.values[variable] = step.to[i]));
        step.block.forEach((variable, i) => (state.sure[variable] = step.sure[i] / 100));
      }
      if ((at + 1) % CHECKPOINT === 0 && !this.checkpoints.has(at + 1)) {
        this.checkpoints.set(at + 1, { values: state.values.slice(), sure: state.sure.slice() });
      }
    }
    return state;
  }

  // What is to be seen at a position; half-way to the next one its block is hidden.
  at(position) {
    const whole = Math.min(Math.floor(position), this.last);
    const number = Math.min(whole, this.steps.length);
    if (this.cached?.number !== number) this.cached = { number, state: this.#reach(number) };
    const step = this.steps[number - 1] ?? null;
    const next = this.steps[number] ?? null;
    const hides = position - whole >= 0.5 && next !== null;
    const isAnswer = whole > this.steps.length;
    const view = {
      position: whole, step, isAnswer, hides,
      values: this.cached.state.values, sure: this.cached.state.sure,
      block: new Set(hides ? next.block : (step?.block ?? [])),
      changed: new Set(hides ? [] : (step?.changed ?? [])),
      violated: step?.violated ?? [],
    };
    if (isAnswer) {
      const values = Int32Array.from(this.result.values);
      Object.assign(view, { values, sure: new Float32Array(this.size).fill(1), block: new Set(), changed: new Set() });
      view.violated = this.result.violations === 0 ? [] : this.#broken(values);
    }
    view.clashing = this.clashing(view);
    return view;
  }

  // The answer's violated constraints, for the kinds that the page can check itself.
  #broken(values) {
    return [...this.scopes.keys()].filter((number) => {
      const { kind, variables } = this.scopes[number];
      const taken = variables.map((variable) => values[variable]);
      return (kind === "all_different" || kind === "not_equal") && new Set(taken).size < taken.length;
    });
  }

  // The variables that a violated constraint marks: of those that must differ, the equal ones.
  clashing({ values, violated }) {
    const found = new Set();
    for (const number of violated) {
      const { kind, variables } = this.scopes[number] ?? { variables: [] };
      for (const variable of variables) {
        const equal = () => variables.some((other) => other !== variable && values[other] === values[variable]);
        if ((kind !== "all_different" && kind !== "not_equal") || equal()) found.add(variable);
      }
    }
    return found;
  }

  nameOf(variable) {
    const label = this.question.labels?.[variable];
    return label === undefined ? String(variable + 1) : Array.isArray(label) ? label.join(" ") : String(label);
  }

  // What a value is called: a digit, a name, a number.
  valueOf(variable, value) {
    if (value < 0) return "";
    const { problem, values } = this.question;
    if (problem === "sudoku" || problem === "latin") return symbol(value);
    const row = Array.isArray(values?.[0]) ? values[variable] : values;
    return String(row?.[value] ?? value);
  }
}

export function symbol(value) {
  return value < 9 ? String(value + 1) : String.fromCharCode(65 + value - 9);
}

// The runs of a trace, from its lines of JSON.
export function runsOf(text) {
  const runs = new Map();
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    let record;
    try {
      record = JSON.parse(line);
    } catch {
      break; // a run that was killed has left half a line
    }
    if (record.question) runs.set(record.instance, new Run(record));
    else runs.get(record.instance)?.add(record);
  }
  return [...runs.values()];
}
