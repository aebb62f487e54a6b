"use strict";
/* The page is complete without this file: it only adds sorting, filtering and a reader for the curve. */
(() => {
  const number = (text) => parseFloat(text.replace(/−/g, "-").replace(/[,<>≤≥±\s]/g, ""));

  const compare = (one, other) => {
    const a = number(one), b = number(other);
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b) || one.localeCompare(other);
    return a - b;
  };

  const sort = (table, column, heading) => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    table.querySelectorAll("th[aria-sort]").forEach((th) => th.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[table.tBodies.length - 1];
    const key = (row) => row.cells[column].textContent.trim();
    const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b)));
    body.append(...rows);
  };

  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    if (table.tBodies[table.tBodies.length - 1].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (!heading.textContent.trim() || heading.classList.contains("drawn")) return;
      const button = make("button", { type: "button", textContent: heading.textContent.trim() });
      button.addEventListener("click", () => sort(table, column, heading));
      heading.replaceChildren(button);
    });
  }

  for (const table of document.querySelectorAll("table[data-filter]")) {
    const body = table.tBodies[table.tBodies.length - 1];
    if (body.rows.length < 8) continue;
    const input = make("input", { type: "search", autocomplete: "off" });
    const label = make("label", { className: "filter", textContent: "Show groups with " });
    const status = make("span", { role: "status" });
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      let shown = 0;
      for (const row of body.rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        shown += !row.hidden;
      }
      status.textContent = wanted ? `${shown} of ${body.rows.length}` : "";
    });
    label.append(input, status);
    table.parentElement.before(label);
  }

  const curve = document.getElementById("curve-table"), reading = document.getElementById("reading");
  if (curve && reading) {
    const rows = [...curve.tBodies[0].rows], own = rows.findIndex((row) => row.classList.contains("own"));
    const range = make("input", { type: "range", className: "explore", min: 0, max: rows.length - 1, step: 1, value: own });
    range.setAttribute("aria-label", "Size of the shift");
    const tell = () => {
      const [gamma, found, proved] = [...rows[range.value].cells].map((cell) => cell.textContent.trim());
      reading.textContent = `Within ${gamma}: at most ${proved} (proved), at least ${found} (found).`;
      range.setAttribute("aria-valuetext", reading.textContent);
    };
    range.addEventListener("input", tell);
    document.querySelectorAll("#shift svg.figure circle.dot").forEach((dot, place) => {
      dot.addEventListener("pointerenter", () => { range.value = place % rows.length; tell(); });
    });
    reading.hidden = false;
    reading.before(range);
    tell();
  }
})();
