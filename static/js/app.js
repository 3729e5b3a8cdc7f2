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
      if (!event.target.matches("#drawer, #dialog")) return;
      trouble.clear();
      event.target.replaceChildren();
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

  /* A popover that covers the button that opened it takes the focus; the browser gives it back when it closes. */
  document.addEventListener(
    "toggle",
    (event) => {
      const opened = event.newState === "open" && event.target.matches("[popover][data-takes-focus]");
      if (opened) event.target.querySelector("nav a, button")?.focus();
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

  /* What went wrong stands where the person is: in the open dialog, else above the page. The server's own words
     (an error page asked for by htmx) arrive in the same box by HX-Retarget. */
  const trouble = {
    box: document.getElementById("trouble"),
    home: document.getElementById("trouble")?.parentElement,
    source: null,
    place() {
      const dialog = document.querySelector("dialog[open]");
      const room = dialog?.querySelector(".drawer__body") || dialog || this.home;
      if (this.box && this.box.parentElement !== room) room.prepend(this.box);
    },
    clear() {
      this.box?.replaceChildren();
      this.home?.prepend(this.box);
      this.source = null;
    },
    say(text) {
      if (!this.box) return;
      const words = document.createElement("div");
      words.className = "errors";
      words.setAttribute("role", "alert");
      words.append(Object.assign(document.createElement("h2"), { textContent: text }));
      this.place();
      this.box.replaceChildren(words);
    },
  };

  /* A swap never throws the focus away: it goes to the same control of what came, else to what came itself. */
  const focus = {
    held: new WeakMap(),
    same(a, b) {
      const of = (each, name) => each.getAttribute(name);
      return a.tagName === b.tagName && ["href", "name", "value", "rel", "aria-label"].every((n) => of(a, n) === of(b, n));
    },
    /* For one request or message. Who is nowhere when it begins is left there. */
    hold(event) {
      const element = document.activeElement;
      if (!event.detail?.ctx || !element || element === document.body) return;
      const around = element.parentElement?.closest("[id]");
      this.held.set(event.detail.ctx, { element, around: around?.id });
    },
    restore(event) {
      const held = this.held.get(event.detail?.ctx);
      const now = document.activeElement;
      if (!held || (now && now !== document.body)) return;
      const around = document.getElementById(held.around) || document.getElementById("main");
      const inside = [...(around?.querySelectorAll(held.element.tagName) || [])];
      const found =
        (held.element.isConnected && held.element) ||
        (held.element.id && document.getElementById(held.element.id)) ||
        inside.find((each) => this.same(each, held.element)) ||
        inside.find((each) => each.textContent.trim() && each.textContent === held.element.textContent) ||
        around;
      if (found && !found.matches("a, button, input, select, textarea, summary, [tabindex]")) found.tabIndex = -1;
      found?.focus({ preventScroll: true });
    },
  };

  /* A pressed button says that it works; a plain form post leaves the page, htmx gives it back. */
  const busy = (form, working) =>
    form?.querySelectorAll?.("button[type=submit], button:not([type])").forEach((button) => {
      if (working) button.setAttribute("aria-busy", "true");
      else button.removeAttribute("aria-busy");
    });
  /* A form on its way is not sent again by a second click. After a while it may be: the way may have been stopped. */
  const LEAVING_MS = 10000;
  const stay = (form) => {
    delete form.dataset.leaving;
    busy(form, false);
  };
  document.addEventListener(
    "submit",
    (event) => {
      if (event.target.dataset.leaving === undefined) return;
      event.preventDefault();
      event.stopImmediatePropagation();
    },
    true,
  );
  document.addEventListener("submit", (event) => {
    const form = event.target;
    busy(form, true);
    if (event.defaultPrevented || form.method !== "post") return;
    form.dataset.leaving = "";
    setTimeout(stay, LEAVING_MS, form);
  });
  window.addEventListener("pageshow", () => document.querySelectorAll("form").forEach(stay));

  const settle = (root) => {
    root.querySelectorAll?.("[data-unlocks]").forEach(unlock);
    watchToasts();
  };
  const loading = (event, working) => {
    const { target, sourceElement: source } = event.detail?.ctx || {};
    if (source?.matches?.("form") && source.dataset.leaving === undefined) busy(source, working);
    if (!(target instanceof Element) || !target.matches("#list, #report, #test")) return;
    if (working) target.setAttribute("aria-busy", "true");
    else target.removeAttribute("aria-busy");
  };
  document.addEventListener("htmx:before:request", (event) => {
    focus.hold(event);
    loading(event, true);
  });
  document.addEventListener("htmx:before:swap", (event) => focus.hold(event));
  document.addEventListener("htmx:after:swap", (event) => {
    const target = event.detail?.ctx?.target;
    const source = event.detail?.ctx?.sourceElement;
    if (event.detail?.ctx?.hx?.retarget === "#trouble") {
      trouble.source = source;
      trouble.place();
    } else if ((source && source === trouble.source) || trouble.box?.isConnected === false) trouble.clear();
    if (target instanceof HTMLDialogElement && target.childElementCount && !target.open) {
      const title = target.querySelector("h1, h2");
      if (title) target.setAttribute("aria-label", title.textContent.trim());
      target.showModal();
      target.querySelector("[autofocus]")?.focus();
    }
    settle(document);
    focus.restore(event);
  });
  document.addEventListener("htmx:finally:request", (event) => {
    loading(event, false);
    focus.restore(event);
  });
  document.addEventListener("htmx:error", (event) => {
    const source = event.detail?.ctx?.sourceElement;
    if (source?.matches?.("#policy-chip")) return;
    if (event.detail?.ctx) trouble.say("The console did not answer. Nothing was saved; try again.");
  });
  settle(document);
})();
