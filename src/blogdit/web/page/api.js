// What the page asks the server: the public API and nothing else.

let token = sessionStorage.getItem("token");

// A link with a token is read once; the token then stays in this tab and leaves the address.
export function takeToken(parameters) {
  if (parameters.has("token")) {
    token = parameters.get("token");
    sessionStorage.setItem("token", token);
    parameters.delete("token");
  }
}

function headers(more = {}) {
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

async function answer(response) {
  if (response.ok) return response.status === 204 ? null : response.json();
  const said = await response.json().catch(() => ({}));
  throw new Error(said.error ?? `the server answered ${response.status}`);
}

export async function get(path) {
  return answer(await fetch(path, { headers: headers() }));
}

export async function post(path, body) {
  const sent = { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(body) };
  return answer(await fetch(path, sent));
}

export async function remove(path) {
  return answer(await fetch(path, { method: "DELETE", headers: headers() }));
}

// Server-sent events by fetch, which can send a token; a broken connection is taken up where it ended.
export async function* events(path, signal) {
  let last = null;
  for (let tries = 0; tries < 4; tries++) {
    try {
      const more = last === null ? {} : { "Last-Event-ID": last };
      const response = await fetch(path, { headers: headers(more), signal });
      if (!response.ok) await answer(response);
      for await (const event of parsed(response.body.pipeThrough(new TextDecoderStream()))) {
        last = event.id;
        tries = 0;
        yield event;
      }
      return;
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof TypeError) || tries === 3) throw error; // a TypeError is a lost connection
      await new Promise((resolve) => setTimeout(resolve, 500 * (tries + 1)));
    }
  }
}

async function* parsed(stream) {
  const reader = stream.getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
      if (fields.data) yield { kind: fields.event, id: fields.id, data: JSON.parse(fields.data) };
    }
  }
}
