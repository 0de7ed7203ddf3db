// Draws the charts of a page, and filters the decisions of a run report.
(() => {
  document.querySelectorAll(".chart").forEach(chart => {
    const figure = Page.read(chart.dataset.figure);
    Page.draw(chart, figure.data, figure.layout);
  });

  const act = document.getElementById("show-act"), hold = document.getElementById("show-hold");
  const last = document.getElementById("show-last");
  const filter = () => document.querySelectorAll(".ledger").forEach(table => {
    const rows = [...table.tBodies[0].rows];
    const wanted = rows.filter(row => (row.dataset.verdict === "act" ? act : hold).checked);
    const shown = new Set(last.value === "all" ? wanted : wanted.slice(-Number(last.value)));
    rows.forEach(row => { row.hidden = !shown.has(row); });
  });
  [act, hold, last].forEach(control => control && control.addEventListener("change", filter));
})();
