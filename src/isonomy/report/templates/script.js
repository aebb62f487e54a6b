"use strict";
/* The page is complete without this file: it adds sorting, filtering, searching, and a reader for the curve. */
(() => {
  const number = (text) => parseFloat(text.replace(/−/g, "-").replace(/[,<>≤≥±\s]/g, ""));
  const make = (name, properties, ...inside) => {
    const node = Object.assign(document.createElement(name), properties);
    node.append(...inside);
    return node;
  };

  const compare = (one, other) => {
    const a = number(one), b = number(other);
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b) || one.localeCompare(other);
    return a - b;
  };

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const body = table.tBodies[0];
    if (body.rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (!heading.textContent.trim() || heading.classList.contains("drawn")) return;
      const button = make("button", { type: "button" }, heading.textContent.trim());
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("th[aria-sort]").forEach((th) => th.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].textContent.trim();
        body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a), key(b))));
      });
      heading.replaceChildren(button);
    });
  }

  for (const table of document.querySelectorAll("table[data-filter]")) {
    const body = table.tBodies[0];
    if (body.rows.length < 8) continue;
    const input = make("input", { type: "search", autocomplete: "off" }), status = make("span", { role: "status" });
    input.addEventListener("input", () => {
      const wanted = input.value.trim().toLowerCase();
      const shown = [...body.rows].filter((row) => {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        return !row.hidden;
      });
      status.textContent = wanted ? `${shown.length} of ${body.rows.length}` : "";
    });
    table.parentElement.before(make("label", { className: "filter" }, "Show groups with ", input, status));
  }

  const tools = document.querySelector(".find"), list = document.querySelector("ol.everybody");
  if (tools && list) {
    const people = [...document.querySelectorAll("li.pp")], more = document.querySelector("details.more");
    const words = new Map(people.map((each) => [each, each.textContent.toLowerCase()]));
    const order = {
      "largest change": (each) => -each.dataset.change, "lowest score": (each) => +each.dataset.score,
      "highest score": (each) => -each.dataset.score, name: null,
    };
    const ways = { everybody: null, "▲ would gain": "gain", "▼ would lose": "lose", "cannot change": "never" };
    const choose = (from) => make("select", {}, ...Object.keys(from).map((name) => make("option", {}, name)));
    const search = make("input", { type: "search", autocomplete: "off", placeholder: "name or word" });
    const way = choose(ways), sort = choose(order), status = make("span", { role: "status" });
    const draw = () => {
      const wanted = search.value.trim().toLowerCase(), kind = ways[way.value], key = order[sort.value];
      const by = key ? (a, b) => key(a) - key(b) : (a, b) => a.dataset.name.localeCompare(b.dataset.name, "en", { numeric: true });
      const some = people.filter((each) => (!kind || each.dataset.way === kind) && words.get(each).includes(wanted));
      list.replaceChildren(...some.sort(by));
      if (more) more.hidden = true;
      status.textContent = `${some.length} of ${people.length} people`;
    };
    for (const [text, field] of [["Find ", search], ["Show ", way], ["Sort by ", sort]]) {
      field.addEventListener(field === search ? "input" : "change", draw);
      tools.append(make("label", {}, text, field));
    }
    tools.append(status);
    tools.hidden = false;
  }

  const curve = document.getElementById("curve-table"), reading = document.getElementById("reading");
  if (curve && reading) {
    const rows = [...curve.tBodies[0].rows], own = rows.findIndex((row) => row.classList.contains("own"));
    const range = make("input", { type: "range", className: "explore", min: 0, max: rows.length - 1, step: 1, value: own });
    range.setAttribute("aria-label", "Size of the shift");
    const tell = () => {
      const [gamma, shown, proved] = [...rows[range.value].cells].map((cell) => cell.textContent.trim());
      reading.textContent = `Within ${gamma}: at most ${proved} (proved), at least ${shown} (shown).`;
      range.setAttribute("aria-valuetext", reading.textContent);
    };
    range.addEventListener("input", tell);
    reading.hidden = false;
    reading.before(range);
    tell();
  }
})();
