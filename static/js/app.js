/* The console's only script beside htmx: what the browser does not do by itself.
   Behaviour is asked for by data attributes; nothing here knows a page. */
(() => {
  "use strict";

  const on = (type, selector, act) =>
    document.addEventListener(type, (event) => {
      const element = event.target instanceof Element && event.target.closest(selector);
      if (element) act(element, event);
    });

  /* Copy: data-copy="#id" copies that element's text and says so on the button for two seconds. */
  on("click", "[data-copy]", async (button) => {
    const source = document.querySelector(button.dataset.copy);
    if (!source) return;
    const label = button.querySelector("[data-label]") || button;
    const before = label.textContent;
    try {
      await navigator.clipboard.writeText(source.dataset.text || source.innerText);
      label.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      label.textContent = "Press Ctrl C";
    }
    setTimeout(() => (label.textContent = before), 2000);
  });

  /* Toasts: they confirm, so they may leave by themselves; the pointer or the focus keeps them. */
  on("click", "[data-dismiss]", (button) => button.closest("[data-toast]")?.remove());
  const leave = (toast) =>
    setTimeout(() => (toast.matches(":hover, :focus-within") ? leave(toast) : toast.remove()), 8000);
  const watchToasts = () =>
    document.querySelectorAll("[data-toast]:not([data-leaving])").forEach((toast) => {
      toast.dataset.leaving = "";
      leave(toast);
    });

  /* Dialogs: a fragment swapped into #drawer or #dialog opens it; data-close closes the one around it. */
  on("click", "dialog [data-close]", (element, event) => {
    const dialog = element.closest("dialog");
    if (!dialog.open) return;
    if (element.matches("a") && element.dataset.close !== "follow") event.preventDefault();
    dialog.close();
  });
  document.addEventListener(
    "close",
    (event) => {
      if (event.target.matches("#drawer, #dialog")) event.target.replaceChildren();
    },
    true,
  );
  on("click", "dialog[open]", (dialog, event) => {
    if (event.target !== dialog || dialog.querySelector("[data-stay]")) return;
    const box = dialog.getBoundingClientRect();
    const inside =
      event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
    if (!inside) dialog.close();
  });
  document.addEventListener(
    "cancel",
    (event) => {
      if (event.target.querySelector?.("[data-stay]")) event.preventDefault();
    },
    true,
  );

  /* data-unlocks="#id": a tick, or the exact text of data-expect, makes a button work. */
  const unlock = (input) => {
    const button = document.querySelector(input.dataset.unlocks);
    const right = input.type === "checkbox" ? input.checked : input.value.trim() === input.dataset.expect;
    if (button) button.disabled = !right;
  };
  on("input", "[data-unlocks]", unlock);

  /* data-remove=".line" takes away the closest such element; the focus goes to the one before it. */
  on("click", "[data-remove]", (button) => {
    const line = button.closest(button.dataset.remove);
    const next = line?.previousElementSibling || line?.nextElementSibling;
    line?.remove();
    next?.querySelector("input")?.focus();
  });

  /* "/" goes to the search field of the page, as long as nobody is typing. */
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const search = document.querySelector("[data-search]");
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  });

  /* A pressed button says that it works; a plain form post leaves the page, htmx gives it back. */
  const busy = (form, working) =>
    form?.querySelectorAll?.("button[type=submit], button:not([type])").forEach((button) => {
      if (working) button.setAttribute("aria-busy", "true");
      else button.removeAttribute("aria-busy");
    });
  document.addEventListener("submit", (event) => busy(event.target, true));
  window.addEventListener("pageshow", () => document.querySelectorAll("form").forEach((form) => busy(form, false)));

  /* A request that failed without an answer must not fail in silence. */
  const notice = (text) => {
    const toast = document.createElement("div");
    toast.className = "toast";
    toast.dataset.toast = "";
    const words = document.createElement("span");
    words.textContent = text;
    const button = document.createElement("button");
    button.className = "btn btn--ghost btn--sm";
    button.type = "button";
    button.dataset.dismiss = "";
    button.textContent = "Dismiss";
    toast.append(words, button);
    document.getElementById("toasts")?.append(toast);
    watchToasts();
  };

  const settle = (root) => {
    root.querySelectorAll?.("[data-unlocks]").forEach(unlock);
    watchToasts();
  };
  document.addEventListener("htmx:after:swap", (event) => {
    const target = event.detail?.ctx?.target;
    if (target instanceof HTMLDialogElement && target.childElementCount && !target.open) {
      const title = target.querySelector("h1, h2");
      if (title) target.setAttribute("aria-label", title.textContent.trim());
      target.showModal();
      target.querySelector("[autofocus]")?.focus();
    }
    settle(document);
  });
  document.addEventListener("htmx:finally:request", (event) => busy(event.detail?.ctx?.sourceElement, false));
  document.addEventListener("htmx:error", (event) => {
    const source = event.detail?.ctx?.sourceElement;
    if (source?.matches?.("#policy-chip")) return;
    if (event.detail?.ctx) notice("The console did not answer. Nothing was saved; try again.");
  });
  settle(document);
})();
