// A click on a word, or Enter, tells the server which one; arrow keys go from word to word.
element.addEventListener("click", (event) => {
  const word = event.target.closest("button[data-word]");
  if (word) trigger("click", { model: Number(word.dataset.model), word: Number(word.dataset.word) });
});
element.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const here = event.target.closest("button[data-word]");
  if (!step || !here) return;
  const words = [...here.closest("ol").querySelectorAll("button[data-word]:enabled")];
  const next = words[words.indexOf(here) + step];
  if (next) next.focus();
  event.preventDefault();
});
