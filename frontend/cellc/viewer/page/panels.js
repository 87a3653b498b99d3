// Around the graph: the pipeline's stages, what is selected, what a pass did, the search.

const { html, cut } = viewer;
const MOST_FOUND = 60, MOST_GROUPS = 120, MOST_LINKS = 40;

// --- the pipeline ----------------------------------------------------------------------------

function drawSide(app) {
  const side = document.getElementById("side");
  const { graph } = app;
  const facts = [...app.data.facts, ["target", graph.code.target],
    ["kernels", `${new Set(graph.code.calls.map((c) => c.kernel)).size} in ${viewer.count(graph.code.calls.length, "call")}`],
    ["arena", viewer.bytes(graph.code.arena)],
    ...(graph.data.call ? [["a call", viewer.seconds(graph.data.call)]] : [])];
  const list = html("ol", { class: "stages" });
  for (let i = 0; i < graph.stages.length;) {
    if (i === 0 || graph.stages[i].changed) {
      list.append(stageRow(app, graph.stages[i]));
      i += 1;
      continue;
    }
    const quiet = [];
    while (i < graph.stages.length && !graph.stages[i].changed) quiet.push(graph.stages[i++]);
    list.append(html("li", { class: "quiet" }, html("details", { open: quiet.some((s) => s.index === app.pass) },
      html("summary", {}, `${quiet.length} without change`),
      html("ol", {}, ...quiet.map((s) => stageRow(app, s))))));
  }
  side.replaceChildren(html("h2", {}, "Pipeline"), list, html("h2", {}, "Facts"),
    html("dl", { class: "facts" }, ...facts.flatMap(([k, v]) => [html("dt", {}, k), html("dd", {}, v)])),
    ...graph.data.notes.map((n) => html("p", { class: "note" }, n)),
    ...(graph.data.plan.length ? [html("details", {}, html("summary", {}, "Recomputation"),
      html("pre", { class: "plan" }, graph.data.plan.join("\n")))] : []));
}

function stageRow(app, stage) {
  const { change } = stage;
  const badges = [["gone", "−", change.gone.length], ["rewritten", "~", change.rewritten.length],
    ["new", "+", change.new.length]].filter(([, , n]) => n)
    .map(([kind, sign, n]) => html("span", { class: `badge ${kind}` }, `${sign}${n}`));
  return html("li", {}, html("button", { class: "stage", "data-stage": stage.index,
    "aria-current": stage.index === app.pass, title: stage.summary,
    onclick: () => app.toStage(stage.index) },
  html("span", { class: "name" }, stage.name), html("span", { class: "count" }, `${stage.count}`),
  html("span", { class: "badges" }, ...badges),
  html("span", { class: "summary" }, stage.index ? stage.summary
    : stage.name === "traced" ? "as written in Python" : "after all passes")));
}

// --- what is selected ------------------------------------------------------------------------

function drawInspector(app) {
  const out = document.getElementById("inspector");
  const parts = [];
  if (app.primary !== null) parts.push(...aboutNode(app, app.primary));
  else if (app.box) parts.push(...aboutBox(app, app.box));
  else if (app.focus !== null) parts.push(...aboutEnd(app, app.focus));
  else if (app.selected.size) parts.push(...aboutMany(app));
  if (app.pass > 0) parts.push(...aboutPass(app));
  if (!parts.length) {
    parts.push(html("p", { class: "hint" }, "Click a Cell to unfold it, a node to see its source, "
      + "loops and code. ? lists the keys."));
  }
  out.replaceChildren(...parts);
}

const rows = (pairs) => html("dl", {}, ...pairs.filter(([, v]) => v !== "" && v !== null)
  .flatMap(([k, v]) => [html("dt", {}, k), html("dd", {}, v)]));

const toNode = (app, uid, text) => html("button", { class: "link", "data-node": uid,
  onclick: () => app.goTo(uid) }, text ?? `${app.graph.nodes[uid].op}.${uid}`);

function many(app, title, uids) {
  if (!uids.length) return [];
  return [html("h3", {}, `${title} (${uids.length})`), html("div", { class: "links" },
    ...uids.slice(0, MOST_LINKS).map((u) => toNode(app, u)),
    uids.length > MOST_LINKS ? html("span", {}, "…") : null)];
}

function aboutNode(app, uid) {
  const { graph, stage } = app;
  const n = graph.nodes[uid];
  const users = graph.users(stage);
  const reads = (stage.operands.get(uid) ?? []).map((v) => {
    const made = graph.producer[stage.outer(v)];
    const name = graph.valueName(v, stage);
    const label = html("span", { class: "dim" }, ` ${graph.value(v).type}`);
    return html("li", {}, made >= 0 && graph.nodes[made].op !== "constant" ? toNode(app, made, name)
      : html("b", {}, name), label);
  });
  const readers = [...new Set(n.types.flatMap((_, i) => users.get(n.first + i) ?? []))];
  const other = n.part === "gradient" ? "Forward nodes it comes from" : "Its gradient";
  return [
    html("h2", { class: `kind ${n.kind}` }, n.op),
    rows([["node", `${n.op}.${uid}`], ["type", n.types.join("\n")], ["Cell", n.scope],
      ["place", n.where ? html("button", { class: "link where", onclick: () => app.openCode() }, n.where) : ""],
      ["part", n.part], ["writes", graph.writes(uid, stage).join(", ")]]),
    ...(n.attrs.length ? [html("h3", {}, "Attributes"), rows(n.attrs.map(([k, v]) => [k, cut(v, 300)]))] : []),
    ...(reads.length ? [html("h3", {}, "Reads"), html("ul", { class: "reads" }, ...reads)] : []),
    ...many(app, "Read by", readers),
    ...many(app, other, graph.counterparts(uid, stage)),
    ...stats(app, n),
    ...aboutCalls(app, graph.calls([uid])),
  ];
}

function aboutBox(app, box) {
  const { graph } = app;
  const uids = [...viewer.nodesOf(box)];
  const ops = new Map();
  for (const u of uids) ops.set(graph.nodes[u].op, (ops.get(graph.nodes[u].op) ?? 0) + 1);
  const weights = new Set(uids.flatMap((u) => graph.chips(u, app.stage).filter((c) => c.weight).map((c) => c.text)));
  return [html("h2", {}, box.l), rows([["path", box.k.slice(1)], ["nodes", `${uids.length}`],
    ["ops", [...ops].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([o, c]) => `${o} ×${c}`).join(", ")],
    ["weights", weights.size ? [...weights].slice(0, 30).join("\n") : ""]]),
  ...aboutCalls(app, graph.calls(uids))];
}

function aboutEnd(app, name) {
  const item = app.view.itemOf(String(name));
  if (!item || item.kind !== "end") return [];
  const v = item.name[0] === "i" ? parseInt(item.name.slice(1), 10)
    : item.graph.outputs[parseInt(item.name.slice(1), 10)];
  const value = app.graph.value(v);
  return [html("h2", {}, item.name[0] === "i" ? value.name || "input" : "output"),
    rows([["type", value.type], ["kind", value.kind]]), ...statsOf(app.graph.data.stats[v], "")];
}

function aboutMany(app) {
  return [html("h2", {}, viewer.count(app.selected.size, "node")),
    ...many(app, "Selected", [...app.selected]), ...aboutCalls(app, app.graph.calls([...app.selected]))];
}

function aboutCalls(app, calls) {
  if (!calls.length) return [];
  const { graph } = app;
  const time = calls.reduce((s, c) => s + (graph.code.calls[c].time ?? 0), 0);
  const shown = calls.slice(0, 8).map((c) => {
    const call = graph.code.calls[c];
    const facts = [call.family, call.tasks > 1 ? `${call.tasks} tasks` : "", viewer.bytes(call.bytes),
      call.flops ? `${(call.flops / 1e6).toPrecision(3)} MFLOP` : "", call.time ? viewer.seconds(call.time) : ""];
    return html("li", {}, html("button", { class: "link", onclick: () => app.showCall(c) }, call.label),
      html("span", { class: "dim" }, ` ${facts.filter(Boolean).join(" · ")}`));
  });
  const title = `Kernel calls (${calls.length})${time ? `, ${viewer.seconds(time)}` : ""}`;
  return [html("h3", {}, title), html("ul", { class: "calls" }, ...shown)];
}

// --- values ----------------------------------------------------------------------------------

function stats(app, n) {
  return n.types.flatMap((_, i) => statsOf(app.graph.data.stats[n.first + i],
    n.types.length > 1 ? ` of result ${i}` : ""));
}

const digits = (x) => (x === null || x === undefined ? "" : x === 0 ? "0"
  : Math.abs(x) >= 1e5 || Math.abs(x) < 1e-3 ? x.toExponential(3) : String(Number(x.toPrecision(5))));

function statsOf(s, which) {
  if (!s) return [];
  const out = [html("h3", {}, `Values${which}`), rows([["minimum", digits(s.min)], ["maximum", digits(s.max)],
    ["mean", digits(s.mean)], ["deviation", digits(s.std)], ["zeros", s.zeros ? `${s.zeros} of ${s.size}` : ""],
    ["NaN", html("b", { class: s.nan ? "bad" : "" }, `${s.nan ?? 0}`)],
    ["infinite", s.inf ? html("b", { class: "bad" }, `${s.inf}`) : ""]])];
  if (s.bins) {
    const most = Math.max(...s.bins);
    const bars = s.bins.map((b, i) => viewer.svg("rect", { x: i * 10 + 1, width: 8,
      y: 50 - (b / most) * 48, height: (b / most) * 48 + 1 }));
    out.push(html("div", { class: "histogram", role: "img",
      "aria-label": `histogram from ${digits(s.min)} to ${digits(s.max)}` },
    viewer.svg("svg", { viewBox: `0 0 ${s.bins.length * 10} 52` }, ...bars)));
  }
  return out;
}

// --- what a pass did -------------------------------------------------------------------------

function aboutPass(app) {
  const { graph } = app;
  const stage = graph.stages[app.pass];
  const change = graph.change(app.base, app.pass);
  const near = app.base === app.pass - 1;
  const base = html("select", { "aria-label": "Compared with",
    onchange: (e) => app.toStage(app.pass, app.before, Number(e.target.value)) },
  ...graph.stages.slice(0, app.pass).map((s) => html("option", { value: s.index,
    selected: s.index === app.base }, `${s.index} ${s.name}`)));
  const sides = html("div", { class: "switch", role: "group", "aria-label": "Side of the pass" },
    ...[["before", true], ["after", false]].map(([text, before]) => html("button", {
      "aria-pressed": app.before === before, onclick: () => app.side(before) }, text)));
  const groups = new Map();
  for (const [gone, made] of change.rewritten) {
    const name = (uids) => [...new Set(uids.map((u) => graph.nodes[u].op))];
    const key = `${name(gone)}→${name(made)}`;
    if (!groups.has(key)) groups.set(key, { from: name(gone), to: name(made), places: [] });
    groups.get(key).places.push([gone, made]);
  }
  const kinds = [...groups.values()].sort((a, b) => b.places.length - a.places.length);
  const rewrites = kinds.slice(0, MOST_GROUPS).map((g) => html("details", { class: "rewrite" },
    html("summary", {}, html("span", { class: "from" }, g.from.join(", ")), " → ",
      html("span", { class: "to" }, g.to.join(", ")), html("b", {}, ` ×${g.places.length}`)),
    html("ul", {}, ...g.places.slice(0, MOST_LINKS).map(([gone, made]) => {
      const n = graph.nodes[gone[0]];
      return html("li", {}, html("button", { class: "link", onclick: () => app.select(app.before ? gone : made,
        { show: true }) }, n.scope || n.where || n.op), html("span", { class: "dim" }, ` ${n.where}`));
    }))));
  const counted = (title, kind, uids) => (uids.length ? [html("details", { class: `rewrite ${kind}` },
    html("summary", {}, `${uids.length} ${title}`), html("div", { class: "links" },
      ...uids.slice(0, MOST_LINKS).map((u) => toNode(app, u, `${graph.nodes[u].op}.${u}`)),
      uids.length > MOST_LINKS ? html("span", {}, "…") : null))] : []);
  return [html("h2", { class: "pass" }, !near ? `Up to ${stage.name}`
    : graph.stages[0].name === "traced" ? `Pass: ${stage.name}` : stage.name),
    near ? html("p", {}, stage.summary) : null,
    html("label", { class: "field" }, "compared with ", base),
    stage.changed || !near ? sides : null, ...rewrites, ...counted("gone", "gone", change.gone),
    ...counted("new", "new", change.new), ...counted("read other values", "rewired", change.rewired)]
    .filter(Boolean);
}

// --- search ----------------------------------------------------------------------------------

/** Nodes of which every word of the question is part of a name, type, weight or place: those of the
 * stage that is shown, then those that a pass has replaced or has yet to make. */
function search(app, question) {
  const words = question.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const { graph } = app;
  const here = [], elsewhere = [];
  for (const n of graph.nodes) {
    if (n.op === "constant") continue;
    const present = app.stage.has(n.uid);
    const stage = present ? app.stage : graph.stages.find((s) => s.has(n.uid));
    const weights = graph.chips(n.uid, stage).filter((c) => c.weight).map((c) => c.text).join(" ");
    const text = `${n.op}.${n.uid} ${n.types.join(" ")} ${n.scope} ${n.where} ${weights}`.toLowerCase();
    if (words.every((w) => text.includes(w))) (present ? here : elsewhere).push(n.uid);
  }
  const order = new Map(app.stage.order.map((u, i) => [u, i]));
  here.sort((a, b) => order.get(a) - order.get(b));
  return [...here, ...elsewhere];
}

/** Why a node is not at the stage that is shown: the pass that replaced it, or that makes it. */
function absence(app, uid) {
  const { graph, stage } = app;
  const first = graph.stages.findIndex((s) => s.has(uid));
  if (first > stage.index) return `made by pass ${first}: ${graph.stages[first].name}`;
  const gone = graph.stages.find((s) => s.index > first && !s.has(uid));
  const rewrite = gone.change.rewritten.find(([old]) => old.includes(uid));
  if (!rewrite) return `removed by pass ${gone.index}: ${gone.name}`;
  const made = [...new Set(rewrite[1].map((u) => graph.nodes[u].op))].filter((o) => o !== "constant");
  const shown = made.length > 4 ? [...made.slice(0, 4), "…"] : made;
  return `${made.length > 1 ? "expanded" : "rewritten"} by pass ${gone.index}: ${gone.name} → ${shown.join(", ")}`;
}

function wireSearch(app) {
  const input = document.getElementById("search"), list = document.getElementById("found");
  let found = [], at = -1;
  const close = () => { list.hidden = true; at = -1; };
  const mark = () => [...list.querySelectorAll("button")].forEach((b, i) => {
    b.setAttribute("aria-selected", i === at);
    if (i === at) b.scrollIntoView({ block: "nearest" });
  });
  const go = (uid) => { close(); app.goTo(uid); document.getElementById("graph").focus(); };
  const draw = () => {
    found = search(app, input.value);
    list.hidden = !input.value.trim();
    at = found.length ? 0 : -1;
    const here = found.filter((u) => app.stage.has(u)).length;
    const total = viewer.count(here, "node");
    list.replaceChildren(html("div", { class: "dim total" }, here === found.length ? total
      : `${total} here, ${found.length - here} at other stages`),
      ...found.slice(0, MOST_FOUND).map((uid) => {
        const n = app.graph.nodes[uid];
        return html("button", { role: "option", "data-node": uid, onclick: () => go(uid) },
          html("b", {}, n.op), html("span", {}, n.types.join(" ")),
          app.stage.has(uid) ? null : html("span", { class: "absent" }, absence(app, uid)),
          html("span", { class: "dim" }, [n.scope, n.where].filter(Boolean).join(" · ")));
      }));
    mark();
  };
  input.addEventListener("input", draw);
  input.addEventListener("focus", () => { if (input.value.trim()) draw(); });
  input.addEventListener("keydown", (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    const many = Math.min(found.length, MOST_FOUND);
    if (step && many) { at = (at + step + many) % many; mark(); e.preventDefault(); }
    else if (e.key === "Enter" && found[at] !== undefined) go(found[at]);
    else if (e.key === "Escape") { close(); input.blur(); }
    e.stopPropagation();
  });
  document.addEventListener("pointerdown", (e) => {
    if (!e.target.closest(".search")) close();
  });
}

Object.assign(viewer, { drawSide, drawInspector, wireSearch, searchNodes: search });
