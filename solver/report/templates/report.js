"use strict";
// Tables sort by a click on a heading; long ones have a field that filters their rows.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
  };
  const compare = (a, b) =>
    typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true });
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    if (body.rows.length < 2 || !heading.textContent) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const falling = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const rows = [...body.rows];
      rows.sort((a, b) => compare(key(a, column), key(b, column)) * (falling ? -1 : 1));
      body.append(...rows);
    });
  });
  if (!table.classList.contains("long")) continue;
  const label = document.createElement("label");
  label.className = "filter";
  label.textContent = "Filter ";
  const field = document.createElement("input");
  field.type = "search";
  label.append(field);
  table.parentElement.before(label);
  field.addEventListener("input", () => {
    const sought = field.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(sought);
  });
}
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
