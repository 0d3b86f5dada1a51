// Paper cannot unfold: what is folded away on screen is opened for printing, and closed again.
const folded = [];
window.addEventListener("beforeprint", () => {
  folded.push(...document.querySelectorAll("details:not([open])"));
  for (const fold of folded) fold.open = true;
});
window.addEventListener("afterprint", () => {
  for (const fold of folded.splice(0)) fold.open = false;
});
// What is printed: the page, or its answer alone, by a button or by ?print=answer in the address.
const root = document.documentElement;
root.dataset.print = new URLSearchParams(location.search).get("print") ?? "all";
for (const button of document.querySelectorAll("button[data-print]")) {
  button.parentElement.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.print = button.dataset.print;
    window.print();
  });
}
// A link to something folded away unfolds what it lies in.
const reveal = () => {
  const name = decodeURIComponent(location.hash.slice(1));
  const target = name && document.getElementById(name);
  if (!target) return;
  for (const fold of target.querySelectorAll(":scope > details.chapter")) fold.open = true;
  for (let at = target.parentElement; at; at = at.parentElement) {
    if (at.tagName === "DETAILS") at.open = true;
  }
  target.scrollIntoView();
};
window.addEventListener("hashchange", reveal);
reveal();
