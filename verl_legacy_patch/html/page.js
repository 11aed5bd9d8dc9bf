"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const hunks = [...document.querySelectorAll(".hunk")];
  const key = document.body.dataset.key;
  const memory = {
    // a page opened from a file may have no storage: it then forgets, and works
    get(name, otherwise) { try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; } },
    set(name, value) { try { localStorage.setItem(name, JSON.stringify(value)); } catch { /* nothing to be done */ } },
  };
  const ticked = new Set(memory.get(key, []));
  let current = -1;

  const theme = (dark) => document.documentElement.classList.toggle("dark", dark);
  theme(memory.get("verl-patch:dark", matchMedia("(prefers-color-scheme: dark)").matches));
  $("theme").addEventListener("click", () => memory.set("verl-patch:dark", theme()));

  const shown = () => hunks.filter((hunk) => !hunk.hidden);

  function progress() {
    const done = hunks.filter((hunk) => ticked.has(hunk.dataset.id)).length;
    $("progress").max = hunks.length || 1;
    $("progress").value = done;
    $("progress-text").textContent = `${done} of ${hunks.length} changes reviewed`;
  }

  function tick(hunk, on) {
    on ? ticked.add(hunk.dataset.id) : ticked.delete(hunk.dataset.id);
    hunk.classList.toggle("ticked", on);
    hunk.querySelector(".reviewed").checked = on;
    memory.set(key, [...ticked]);
    progress();
  }

  function filter() {
    const codemod = $("f-codemod").value, grade = $("f-grade").value, role = $("f-role").value;
    const file = $("f-file").value.trim().toLowerCase(), open = $("f-open").checked;
    for (const section of document.querySelectorAll(".file")) {
      const fits = (!role || section.dataset.role === role) && section.dataset.path.toLowerCase().includes(file);
      let any = false;
      for (const hunk of section.querySelectorAll(".hunk")) {
        hunk.hidden = !(fits && (!codemod || hunk.dataset.codemods.split(" ").includes(codemod)) &&
          (!grade || hunk.dataset.grade === grade) && !(open && ticked.has(hunk.dataset.id)));
        any ||= !hunk.hidden;
      }
      section.hidden = !any;
    }
    const count = shown().length;
    $("shown").textContent = `${count} of ${hunks.length} changes`;
    $("nothing").hidden = count > 0;
  }

  function split(on) {
    for (const scroll of document.querySelectorAll(".scroll")) {
      const beside = scroll.querySelector(".split");
      if (on && !beside) scroll.append(scroll.querySelector(".split-rows").content.cloneNode(true));
      else if (beside) beside.hidden = !on;
      scroll.querySelector(".unified").hidden = on;
    }
    memory.set("verl-patch:split", on);
  }

  function go(step) {
    const list = shown();
    if (!list.length) return;
    const at = list.indexOf(hunks[current]);
    const next = list[Math.min(Math.max(at + step, 0), list.length - 1)];
    hunks[current]?.classList.remove("current");
    current = hunks.indexOf(next);
    next.classList.add("current");
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "center" });
  }

  for (const hunk of hunks) {
    tick(hunk, ticked.has(hunk.dataset.id));
    hunk.querySelector(".reviewed").addEventListener("change", (event) => tick(hunk, event.target.checked));
    hunk.addEventListener("focusin", () => {
      hunks[current]?.classList.remove("current");
      current = hunks.indexOf(hunk);
      hunk.classList.add("current");
    });
  }
  for (const id of ["f-codemod", "f-grade", "f-role", "f-open"]) $(id).addEventListener("change", filter);
  $("f-file").addEventListener("input", filter);
  $("split").addEventListener("change", () => split($("split").checked));
  $("help").addEventListener("click", () => $("keys").showModal());
  const opened = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target?.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", opened);
  opened();

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
    if (event.key === "Escape" && !$("keys").open) {
      for (const id of ["f-codemod", "f-grade", "f-role", "f-file"]) $(id).value = "";
      $("f-open").checked = false;
      filter();
      event.target.blur?.();
    } else if (typing || $("keys").open) {
      return;
    } else if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "x" && current >= 0) {
      const hunk = hunks[current];
      tick(hunk, !ticked.has(hunk.dataset.id));
      if (ticked.has(hunk.dataset.id)) go(1);
      filter();
    } else if (event.key === "s") { $("split").checked = !$("split").checked; split($("split").checked); }
    else if (event.key === "/") $("f-file").focus();
    else if (event.key === "?") $("keys").showModal();
    else return;
    event.preventDefault();
  });

  $("split").checked = memory.get("verl-patch:split", false) && innerWidth > 736;
  if ($("split").checked) split(true);
  progress();
  filter();
})();
