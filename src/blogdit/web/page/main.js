// The page: what is asked, how it is solved, and what is shown.

import { events, get, post, remove, takeToken } from "./api.js";
import { Chooser } from "./chooser.js";
import { Lane, lanesOf } from "./lane.js";
import { Player } from "./player.js";
import { ProblemPanel } from "./problem.js";
import { SettingsPanel } from "./settings.js";
import { Run, Runs, runsOf } from "./trace.js";
import { TrainView } from "./train.js";

const LONGEST_LINK = 20000; // characters; longer addresses are cut by some programs
const WAITING = 1500; // milliseconds without a step after which a finisher is at work
const STACKED = matchMedia("(max-width: 52rem)"); // the picture is above the controls: a phone
const byId = (id) => document.getElementById(id);

const settings = new SettingsPanel(byId("controls"));
const player = new Player(byId("transport"));
const problem = new ProblemPanel();
const chooser = new Chooser(byId("chooser"), (runs) => {
  const shown = lanesOf(runs);
  byId("lanes").replaceChildren(...shown.map((lane) => lane.element));
  player.watch(shown);
  player.play();
});
let jobs = []; // that are at work
let asked = 0; // runs that were begun; an older one that answers late is not shown

function say(text, isError = false) {
  byId("message").textContent = text;
  byId("message").className = isError ? "error" : "";
}

// -- solving -------------------------------------------------------------------------------------------------------

function lanes(count) {
  chooser.clear();
  const found = Array.from({ length: count }, () => new Lane());
  byId("lanes").replaceChildren(...found.map((lane) => lane.element));
  return found;
}

function setWorking(working) {
  byId("ask").dataset.state = working ? "working" : "done";
  byId("stop").disabled = !working;
  byId("solve").textContent = working ? "Solve again" : "Solve";
}

async function stop() {
  const ending = jobs;
  jobs = [];
  await Promise.allSettled(ending.map(({ path }) => remove(path)));
}

async function solve() {
  const number = ++asked;
  setWorking(true);
  await stop();
  const what = problem.question();
  const runs = settings.runs();
  say("Asking the server …");
  let begun;
  try {
    begun = await Promise.all(runs.map((run) => post("/solve", { ...what, ...run.request })));
  } catch (error) {
    if (number === asked) {
      setWorking(false);
      say(error.message, true);
      problem.show();
    }
    return;
  }
  jobs = begun.map(({ events: path }) => ({ path }));
  remember(true);
  const shown = lanes(runs.length);
  for (const lane of shown) lane.working = true;
  player.watch(shown);
  player.play();
  say("Steps arrive as they are made.");
  const ends = await Promise.allSettled(
    shown.map((lane, index) => follow(lane, jobs[index].path, number, runs[index].title)),
  );
  if (number !== asked) return;
  jobs = [];
  setWorking(false);
  const failed = ends.find((end) => end.status === "rejected");
  const [one, other] = shown.map(({ run }) => run && JSON.stringify({ ...run.settings, options: { ...run.settings.options, block: "" } }));
  if (failed) say(failed.reason.message, true);
  else if (one && one === other) say("Both sides had the same settings, and made the same run.");
  else if (shown[0].run.settings.more) say("The text holds several instances; this was the first.");
  else say("All steps are here. Step back and forth, or play again.");
}

async function follow(lane, path, number, title) {
  let heard = performance.now();
  const clock = setInterval(() => {
    lane.waiting = performance.now() - heard > WAITING && lane.run?.steps.length > 0;
    if (lane.waiting && !player.playing) player.refresh();
  }, 500);
  try {
    for await (const event of events(path)) {
      if (number !== asked) return;
      heard = performance.now();
      if (event.kind === "failed") throw new Error(event.data.error);
      if (event.kind === "question") {
        lane.begin(new Run(event.data), problem.place);
        lane.setTitle(title(event.data.settings));
        if (STACKED.matches) byId("lanes").scrollIntoView();
      } else {
        lane.run.add(event.data);
        if (!player.playing) player.refresh();
      }
    }
  } finally {
    clearInterval(clock);
    lane.working = false;
    player.refresh();
  }
}

// -- traces --------------------------------------------------------------------------------------------------------

function showRuns(runs) {
  asked++;
  stop();
  setWorking(false);
  if (!runs.length) return say("This trace has no question in it; expected what blogdit solve --trace writes now.", true);
  chooser.set(runs);
  say(runs.length > 1 ? `A trace of ${runs.length} instances; choose above the picture.` : "A trace.");
}

async function open(file) {
  const text = await file.text();
  const first = text.slice(0, text.indexOf("\n") >>> 0);
  if (/"question"\s*:/.test(first) || /"step"\s*:/.test(first)) return showRuns(runsOf(text));
  problem.setText(file.name, text);
  say(`${file.name} is ready to be solved.`);
}

// -- the address ---------------------------------------------------------------------------------------------------

// The whole state of the page, so that a link gives the same run.
function state() {
  const parameters = problem.state();
  for (const [name, value] of Object.entries(settings.values())) if (value !== defaults[name]) parameters.set(name, value);
  return parameters;
}

function remember(run) {
  const parameters = state();
  if (run) parameters.set("run", "1");
  const fragment = `#${parameters}`;
  if (fragment.length <= LONGEST_LINK) history.replaceState(null, "", fragment);
  return fragment.length <= LONGEST_LINK;
}

// -- wiring --------------------------------------------------------------------------------------------------------

function listen() {
  problem.onShow = (picture) => {
    const [lane] = lanes(1);
    lane.preview(picture, "Press Solve: a block goes grey, is drawn anew given all others, and settles.");
    player.watch([lane]);
  };
  byId("ask").addEventListener("submit", (event) => (event.preventDefault(), solve()));
  byId("stop").addEventListener("click", stop);
  byId("edit").addEventListener("click", () => problem.show());
  byId("example").addEventListener("change", () => say(""));
  byId("file").addEventListener("change", (event) => event.target.files[0] && open(event.target.files[0]));
  byId("share").addEventListener("click", share);
  document.addEventListener("dragover", (event) => (event.preventDefault(), document.body.classList.add("dropping")));
  document.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dropping");
    if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => player.refresh());
  window.addEventListener("hashchange", () => {
    const parameters = ofAddress();
    problem.restore(parameters);
    begin(parameters, defaults);
  });
}

async function share() {
  if (!remember(true)) return say("This problem is too large for a link; share its file instead.", true);
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied: it gives the same run.");
  } catch {
    say("The link is in the address bar: it gives the same run.");
  }
}

function showTraining(visible) {
  byId("play").hidden = visible;
  byId("train").hidden = !visible;
  byId("show-play").setAttribute("aria-pressed", String(!visible));
  byId("show-train").setAttribute("aria-pressed", String(visible));
}

function ofAddress() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  takeToken(parameters);
  return parameters;
}

function begin(parameters, others = {}) {
  settings.set({ ...others, ...Object.fromEntries(parameters) });
  if (parameters.get("run") === "1") solve();
  else if (location.hash.includes("token=")) history.replaceState(null, "", location.pathname);
}

async function start() {
  listen();
  const parameters = ofAddress();
  problem.restore(parameters); // at once: nobody waits for a server to type a puzzle
  const health = await get("/health");
  settings.setLimits(health.limits);
  byId("vertices").max = health.limits.variables;
  try {
    settings.setModels(await get("/models"));
  } catch (error) {
    say(error.message, true);
  }
  byId("ask").dataset.state = "ready";
  begin(parameters);
  if (health.open.includes("trace")) {
    const runs = new Runs();
    for await (const { data } of events("/events/trace")) runs.add(data);
    showRuns(runs.all);
  }
  if (health.open.includes("run")) {
    byId("tabs").hidden = false;
    byId("show-play").addEventListener("click", () => showTraining(false));
    byId("show-train").addEventListener("click", () => showTraining(true));
    showTraining(true);
    new TrainView(byId("train")).follow("/events/run").catch((error) => say(error.message, true));
  }
}

if (STACKED.matches) byId("settings").open = false;
const defaults = settings.values();
start();
