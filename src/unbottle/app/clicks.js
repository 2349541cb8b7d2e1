// Next words: a click or Enter appends a word, arrow keys go from word to word, and where a word was copied from is
// marked in the text box. Written texts: pointing at a copied word marks it in the other texts too.
const unmark = () => {
  document.querySelectorAll(".ub-mirror").forEach((mirror) => mirror.remove());
  element.querySelectorAll(".ub-same").forEach((mark) => mark.classList.remove("ub-same"));
};

// A textarea cannot show marks: a copy of its text is laid over it.
const markText = (word, places) => {
  const box = document.querySelector("#next-text textarea");
  if (box.value.replace(/ +$/, "") !== element.querySelector("[data-text]").dataset.text) return;
  const mirror = document.createElement("div");
  const letters = [...box.value];
  let done = 0;
  for (const [start, end] of places) {
    const mark = document.createElement("mark");
    mark.textContent = letters.slice(start, end).join("");
    mirror.append(letters.slice(done, start).join(""), mark);
    done = end;
  }
  mirror.append(letters.slice(done).join(""));
  mirror.className = "ub-mirror";
  const style = getComputedStyle(box);
  for (const name of ["font", "letterSpacing", "padding", "borderWidth"]) mirror.style[name] = style[name];
  Object.assign(mirror.style, {
    left: `${box.offsetLeft}px`, top: `${box.offsetTop}px`, width: `${box.clientWidth}px`, height: `${box.offsetHeight}px`,
  });
  mirror.style.setProperty("--ub-colour", word.style.getPropertyValue("--ub-colour"));
  box.after(mirror);
  box.addEventListener("input", unmark, { once: true });
  mirror.scrollTop = box.scrollTop;
};

// Scrolling moves words under a pointer that rests. That is no reason to forget a word that the keyboard points at.
let pointer = "";
const placeOf = (event) => `${event.clientX} ${event.clientY}`;
const rests = (event) => event.type.startsWith("pointer") && placeOf(event) === pointer;
document.addEventListener("pointermove", (event) => { pointer = placeOf(event); });

const mark = (event) => {
  if (rests(event)) return;
  unmark();
  const word = event.target.closest(".ub-word");
  const places = word?.querySelector("[data-places]");
  if (places) markText(word, places.dataset.places.trim().split(" ").map((place) => place.split("-").map(Number)));
  const copied = event.target.closest("mark");
  const text = (found) => found.firstChild.textContent.toLowerCase();
  element.querySelectorAll("mark").forEach((other) => {
    if (copied && text(other) === text(copied)) other.classList.add("ub-same");
  });
};
for (const name of ["pointerover", "focusin"]) element.addEventListener(name, mark);
for (const name of ["pointerleave", "focusout"]) element.addEventListener(name, (event) => rests(event) || unmark());

element.addEventListener("click", (event) => {
  unmark();
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
