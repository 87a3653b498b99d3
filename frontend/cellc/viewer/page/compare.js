// Two stages side by side, node by node: what stays, what is gone, what is new.

const { html } = viewer;
const MOST_LINES = 4000;

/** Rows of two nodes, one of them null where the other stage has none of the place. */
function aligned(before, after) {
  const out = [];
  const [a, b] = [before, after].map((s) => s.order);
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    const left = [], right = [];
    while (i < a.length && !after.has(a[i])) left.push(a[i++]);
    while (j < b.length && !before.has(b[j])) right.push(b[j++]);
    for (let k = 0; k < Math.max(left.length, right.length); k += 1) out.push([left[k] ?? null, right[k] ?? null]);
    if (i >= a.length && j >= b.length) break;
    if (a[i] === b[j]) out.push([a[i++], b[j++]]);
    else if (i < a.length) out.push([a[i++], null]);  // it stands elsewhere in the other
    else out.push([null, b[j++]]);
  }
  return out;
}

function drawCompare(app) {
  const { graph } = app;
  if (!app.pass) return html("p", { class: "hint" }, "Choose a stage behind the first: it is compared with the one before it, or with the one that is chosen on the right.");
  const before = graph.stages[app.base], after = graph.stages[app.pass];
  const cell = (uid, stage, other, side) => {
    if (uid === null) return html("td", {});
    const n = graph.nodes[uid];
    const reads = stage.operands.get(uid).map((v) => graph.valueName(v, stage)).join(", ");
    const changed = other.has(uid) && String(other.operands.get(uid)) !== String(stage.operands.get(uid));
    const kind = !other.has(uid) ? side : changed ? "rewired" : "";
    return html("td", { class: kind, "data-node": uid, title: [n.scope, n.where].filter(Boolean).join(" · "),
      onclick: () => { app.side(side === "gone"); app.select([uid], { primary: uid, show: true }); } },
    html("b", {}, `${n.op}.${uid}`), `(${reads})`, html("span", { class: "dim" }, ` ${n.types.join(", ")}`));
  };
  const rows = aligned(before, after).filter((row) => row.some((u) => u !== null && graph.nodes[u].op !== "constant"));
  const shown = rows.slice(0, MOST_LINES).map(([l, r]) => html("tr", {}, cell(l, before, after, "gone"),
    cell(r, after, before, "new")));
  const rest = rows.length - shown.length;
  return html("table", { class: "kernels compare" },
    html("thead", {}, html("tr", {}, ...[before, after].map((s) => html("th", {}, `${s.name} (${viewer.count(s.count, "node")})`)))),
    html("tbody", {}, ...shown, rest ? html("tr", {}, html("td", {}, `… ${rest} more`)) : null));
}

Object.assign(viewer, { drawCompare });
