// The page of `blogdit export`: a trace that lies in the page itself.

import { Chooser } from "./chooser.js";
import { lanesOf } from "./lane.js";
import { Player } from "./player.js";
import { runsOf } from "./trace.js";

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

async function replay(text) {
  const player = new Player(document.getElementById("transport"));
  const chooser = new Chooser(document.getElementById("chooser"), (runs) => {
    const lanes = lanesOf(runs);
    document.getElementById("lanes").replaceChildren(...lanes.map((lane) => lane.element));
    player.watch(lanes);
    player.play();
  });
  chooser.set(runsOf(await unpacked(text)));
}

const packedTrace = document.getElementById("trace");
if (packedTrace) replay(packedTrace.textContent.trim());
