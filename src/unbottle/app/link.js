{
  // What the address said before the page changed it: tabs report themselves before links are opened.
  get opened() {
    return (window.unbottleOpened ??= new URLSearchParams(location.search));
  },
  // The address says what is asked for; a very long text is left out.
  save(tab, names, values) {
    const theme = this.opened.get("__theme");
    const query = new URLSearchParams({ tab });
    names.forEach((name, place) => query.set(name, values[place]));
    if (theme) query.set("__theme", theme);
    if (`${query}`.length > 30000) query.delete("text");
    history.replaceState(null, "", `?${query}`);
  },
  // The values that the address names, each of the type it has now. The button of the tab is pressed when it is there.
  open(tab, names, values) {
    const query = this.opened;
    if (query.get("tab") !== tab) return [{ __type__: "update" }, ...values];
    const typed = { number: Number, boolean: (text) => text === "true", string: String };
    setTimeout(() => this.press(tab, 50), 100);
    return [
      { __type__: "update", selected: tab },
      ...names.map((name, place) => query.has(name) ? typed[typeof values[place]](query.get(name)) : values[place]),
    ];
  },
  press(tab, times) {
    const button = document.getElementById(`${tab}-button`);
    if (button) button.click();
    else if (times > 0) setTimeout(() => this.press(tab, times - 1), 100);
  },
  copy() {
    if (!navigator.clipboard) return prompt("Link to this page", location.href); // not on plain http of another machine
    navigator.clipboard.writeText(location.href);
    const button = document.getElementById("link");
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy link"; }, 2000);
  },
}
