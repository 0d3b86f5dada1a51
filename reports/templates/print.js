// Paper cannot unfold: what is folded away on screen is opened for printing, and closed again.
const folded = [];
window.addEventListener("beforeprint", () => {
  folded.push(...document.querySelectorAll("details:not([open])"));
  for (const fold of folded) fold.open = true;
});
window.addEventListener("afterprint", () => {
  for (const fold of folded.splice(0)) fold.open = false;
});
