/* The live page's own script: says how old the figures are when no news comes.
   Everything else is markup from the server, swapped by htmx's ws extension. */
(() => {
  "use strict";

  const root = document.querySelector("[data-live]");
  if (!root) return;
  const box = document.getElementById("live-age");
  const age = root.querySelector("[data-live-age]");
  const status = root.querySelector("[data-live-status]");
  const QUIET_S = 3;
  const WHY = {
    4401: "You are signed out. Sign in and load the page again.",
    4403: "Your role may not watch live traffic any more.",
    4429: "Too many live pages are open in your name. Close one and load this page again.",
  };

  let last = Date.now();
  let closed = null;
  let said = "";

  const words = (seconds) => {
    if (WHY[closed]) return WHY[closed];
    return `No news for ${seconds} s. The figures are from then; connecting again by itself.`;
  };

  const mark = () => {
    const seconds = Math.floor((Date.now() - last) / 1000);
    const paused = root.querySelector("[data-paused]") !== null;
    const stale = Boolean(WHY[closed]) || (!paused && seconds > QUIET_S);
    root.classList.toggle("is-stale", stale);
    box.hidden = !stale;
    if (stale) age.textContent = words(seconds);
    const now = stale ? "Live figures have stopped" : "";
    if (now !== said) status.textContent = now || "Live figures go on";
    said = now;
  };

  root.addEventListener("htmx:ws:after:message:incoming", () => {
    last = Date.now();
    closed = null;
    document.getElementById("live-nothing")?.remove();
    mark();
  });
  root.addEventListener("htmx:ws:close", (event) => {
    closed = event.detail.code;
    mark();
  });
  setInterval(mark, 1000);

  /* htmx starts by itself before a deferred extension has registered; then the socket was not seen. */
  htmx.process(root);
})();
