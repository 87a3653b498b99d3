// The arena over the program, and the kernel calls as a table.

const { svg, html } = viewer;
const SIDE = 74, TOP = 18, FOOT = 26, MOST_ROWS = 400, NUMBERS = [0, 1, 6, 7, 9];

/** Every temporary as a rectangle: when it is needed, and where in the arena it lies. */
function drawMemory(app) {
  const { buffers, arena, calls } = app.graph.code;
  if (!buffers.length) return html("p", { class: "hint" }, "The program needs no temporaries.");
  const peak = viewer.atPeak(buffers);
  const end = Math.max(...buffers.map((b) => b[4])) + 1;
  const wide = 900, high = 250;
  const x = (t) => SIDE + (t / end) * wide, y = (b) => TOP + high - (b / arena) * high;
  const picture = svg("svg", { viewBox: `0 0 ${SIDE + wide + 10} ${TOP + high + FOOT}`, class: "arena",
    role: "img", "aria-label": `Arena of ${viewer.bytes(arena)} over the program` });
  picture.append(svg("rect", { class: "ground", x: SIDE, y: TOP, width: wide, height: high }));
  buffers.forEach(([name, size, offset, first, last, call], i) => {
    const r = svg("rect", { class: `buffer ${first <= peak.at && peak.at <= last ? "peak" : ""}`,
      "data-buffer": i, x: x(first), width: Math.max(x(last + 1) - x(first) - 0.5, 1),
      y: y(offset + size), height: Math.max((size / arena) * high - 0.3, 0.4), tabindex: -1 });
    const title = svg("title");
    title.textContent = `${name}: ${viewer.bytes(size)} at ${viewer.bytes(offset)}, instructions ${first} to ${last}`;
    r.append(title);
    r.addEventListener("click", () => { if (calls[call]) app.showCall(call, true); });
    picture.append(r);
  });
  picture.append(svg("line", { class: "moment", x1: x(peak.at + 0.5), x2: x(peak.at + 0.5), y1: TOP, y2: TOP + high }));
  for (const part of [0, 0.5, 1]) picture.append(label(viewer.bytes(Math.round(arena * part)), SIDE - 6, y(arena * part) + 4, "end"));
  picture.append(label("instructions of a call, in order", SIDE + wide, TOP + high + 18, "end"),
    label(`most is live here: ${viewer.bytes(peak.bytes)}`, x(peak.at + 0.5) + (peak.at > end * 0.7 ? -6 : 6), TOP - 5,
      peak.at > end * 0.7 ? "end" : "start"));
  const live = peak.live.slice(0, 40).map(([name, size, , first, last, call]) => html("li", {},
    html("button", { class: "link", onclick: () => calls[call] && app.showCall(call, true) }, name),
    html("b", {}, ` ${viewer.bytes(size)}`), html("span", { class: "dim" }, ` ${place(app, call)} · ${first} to ${last}`)));
  const packed = app.graph.code.packed.map((p) => html("li", {}, html("b", {}, viewer.bytes(p.bytes)),
    ` ${p.label || "values of weights"} `, html("span", { class: "dim" }, p.of.join(", "))));
  return html("div", { class: "memory" }, html("div", { class: "picture" }, picture),
    html("div", { class: "lists" }, html("h3", {}, `At the peak (${peak.live.length})`), html("ol", {}, ...live),
      ...(packed.length ? [html("h3", {}, `Kept from call to call (${packed.length})`), html("ol", {}, ...packed)] : [])));
}

function label(text, x, y, anchor) {
  const t = svg("text", { x, y, "text-anchor": anchor });
  t.textContent = text;
  return t;
}

function place(app, call) {
  const uid = app.graph.code.calls[call]?.nodes[0];
  const n = app.graph.nodes[uid];
  return n ? n.scope || n.where : "";
}

/** The kernel calls in order, or those that take most first. */
function drawKernels(app, by = null) {
  const { calls } = app.graph.code;
  const timed = calls.some((c) => c.time);
  const field = timed ? "time" : "cost";
  const most = calls.reduce((s, c) => Math.max(s, c[field] ?? 0), 0) || 1;
  const order = calls.map((_, i) => i);
  if (by ?? timed) order.sort((a, b) => (calls[b][field] ?? 0) - (calls[a][field] ?? 0));
  const rows = order.slice(0, MOST_ROWS).map((i) => {
    const c = calls[i];
    const part = (c[field] ?? 0) / most;
    return html("tr", { "data-call": i, tabindex: 0, onclick: () => app.showCall(i, true),
      onkeydown: (e) => { if (e.key === "Enter") app.showCall(i, true); } },
    html("td", { class: "num" }, `${i}`),
    html("td", { class: "num" }, timed ? viewer.seconds(c.time ?? 0) : `${c.cost ?? ""}`),
    html("td", {}, bar(part)), html("td", { class: "part" }, partOf(app, c)), html("td", {}, c.label), html("td", {}, c.family),
    html("td", { class: "num" }, c.flops && c.time ? (c.flops / c.time / 1e9).toPrecision(3) : ""),
    html("td", { class: "num" }, viewer.bytes(c.bytes)), html("td", {}, place(app, i)),
    html("td", { class: "num" }, c.kernel === undefined ? "" : `${c.kernel}`));
  });
  const head = ["#", timed ? "Time" : "Cycles (estimate)", "", "Part", "Ops", "Kernel", "GFLOP/s", "Bytes", "Cell", "Code"];
  return html("table", { class: "kernels" }, html("thead", {}, html("tr", {}, ...head.map((h, i) => html("th", { class: NUMBERS.includes(i) ? "num" : "" }, h)))),
    html("tbody", {}, ...rows));
}

/** Whether a call is of the forward pass, the gradient or the update of a training step, or of
 * several of them. */
function partOf(app, call) {
  const { nodes } = app.graph;
  if (!nodes.some((n) => n.part !== "forward")) return "";
  const some = call.nodes.filter((u) => nodes[u].op !== "constant").map((u) => nodes[u].part);
  return ["forward", "gradient", "update"].filter((p) => some.includes(p)).join(" + ");
}

function bar(part) {
  return svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none" },
    svg("rect", { width: Math.max(part * 100, part ? 0.6 : 0), height: 10 }));
}

Object.assign(viewer, { drawMemory, drawKernels });
