// The compilations of a script's run: what was compiled, by which line, and why again.

const { html } = viewer;

function drawCompilations(app) {
  const rows = app.data.compilations.map((c, i) => {
    const shown = c.graph !== null;
    const open = () => { if (shown) app.toGraph(c.graph); };
    const why = c.cause || (c.instance ? "" : "the first of this network");
    return html("tr", { class: [c.cause && !c.instance ? "again" : "", shown ? "" : "still"].join(" "),
      tabindex: 0, title: shown ? "Show its graph" : "Its graph is not in this report", onclick: open,
      onkeydown: (e) => { if (e.key === "Enter") open(); } },
    html("td", { class: "num" }, `${i + 1}`), html("td", {}, html("b", {}, c.name), c.signature),
    html("td", { class: "narrow" }, c.place), html("td", { class: "num narrow" }, viewer.seconds(c.seconds)),
    html("td", {}, c.instance ? `served by the graph with open sizes${why ? `: ${why}` : ""}` : why,
      c.remedy ? html("span", { class: "remedy" }, `what helps: ${c.remedy}`) : null),
    html("td", { class: "num" }, `${c.kernels || ""}`), html("td", { class: "num" }, viewer.bytes(c.arena)),
    html("td", { class: "narrow" }, c.cached ? "disk cache" : "made"));
  });
  const head = [["#", "num"], ["Network"], ["Called at"], ["Time", "num"], ["Why"], ["Kernels", "num"],
    ["Arena", "num"], ["Code"]];
  return html("table", { class: "kernels compilations" }, html("thead", {}, html("tr", {},
    ...head.map(([text, kind]) => html("th", { class: kind ?? "" }, text)))), html("tbody", {}, ...rows));
}

Object.assign(viewer, { drawCompilations });
