// Turns column headings into buttons that sort their table: first click up, second click down,
// third click back to the order of the page. Cells without a value always come last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const given = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  const compare = (a, b, words) => {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 2 : -2;
    return words ? Math.sign(a.localeCompare(b)) : Math.sign(a - b);
  };
  const sort = (column, turn) => {
    const words = headings[column].classList.contains("word");
    const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();
    const rows = turn === "none" ? given : [...given].sort((a, b) => {
      const order = compare(key(a), key(b), words);
      return Math.abs(order) === 2 || turn === "ascending" ? order : -order;
    });
    body.append(...rows);
    headings.forEach((heading, i) => heading.setAttribute("aria-sort", i === column ? turn : "none"));
  };
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.title = "Sort by this column";
    heading.append(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const next = { none: "ascending", ascending: "descending", descending: "none" };
      sort(column, next[heading.getAttribute("aria-sort")]);
    });
  });
}
