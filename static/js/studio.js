/* The skill form. A control that somebody touches is set here: its switch goes on, so that the page says what
   saving will do. Without this script the server concludes the same from what the page had shown. */
(() => {
  "use strict";
  const touched = (event) => {
    const element = event.target;
    if (!(element instanceof HTMLElement) || !element.closest("[data-studio] .control")) return;
    const field = element.closest(".field");
    const box = field?.querySelector(".switch input");
    if (!box || box.checked) return;
    box.checked = true;
    field.querySelector(".control")?.classList.remove("control--inherited");
  };
  document.addEventListener("input", touched);
  /* A list behind "No restriction" counts as soon as somebody fills it. */
  document.addEventListener("input", (event) => {
    const list = event.target.closest?.("[data-studio] .control__list");
    const only = list?.closest(".control")?.querySelector('input[type=radio][value="some"]');
    if (only) only.checked = true;
  });
})();
