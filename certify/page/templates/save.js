// The SVG of a figure as a file: what the page shows, with an ink and a ground of its own.
for (const link of document.querySelectorAll("a.svg")) {
  link.parentElement.hidden = false;
  link.addEventListener("click", () => {
    const svg = link.closest("figure").querySelector("[role=img] svg").cloneNode(true);
    const [width, height] = svg.getAttribute("viewBox").split(" ").slice(2);
    const given = {
      width: `${width}pt`, height: `${height}pt`, color: "#1b1f24",
      "stroke-linejoin": "round", "stroke-linecap": "butt",
    };
    for (const [name, value] of Object.entries(given)) svg.setAttribute(name, value);
    const ground = document.createElementNS(svg.namespaceURI, "rect");
    for (const name of ["width", "height"]) ground.setAttribute(name, "100%");
    ground.setAttribute("fill", "white");
    svg.prepend(ground);
    const text = new XMLSerializer().serializeToString(svg)
      .replaceAll("system-ui, sans-serif", "DejaVu Sans, Verdana, sans-serif");
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  });
}
