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
  const system = matchMedia("(prefers-color-scheme: dark)");
  theme(memory.get("verl-patch:dark", system.matches));
  system.addEventListener("change", () => theme(memory.get("verl-patch:dark", system.matches)));
  $("theme").addEventListener("click", () => memory.set("verl-patch:dark", theme()));

  const shown = () => hunks.filter((hunk) => !hunk.hidden);

  function progress() {
    const done = hunks.filter((hunk) => ticked.has(hunk.dataset.id)).length;
    $("progress").max = hunks.length || 1;
    $("progress").value = done;
    $("progress-text").textContent = `${done} of ${hunks.length} reviewed`;
  }

  function tick(list, on) {
    for (const hunk of list) {
      on ? ticked.add(hunk.dataset.id) : ticked.delete(hunk.dataset.id);
      paint(hunk, on);
    }
    memory.set(key, [...ticked]);
    progress();
    if ($("f-open").checked) filter();
    else tickButton();
  }

  function paint(hunk, on) {
    hunk.classList.toggle("ticked", on);
    hunk.querySelector(".reviewed").checked = on;
  }

  const allTicked = (list) => list.length > 0 && list.every((hunk) => ticked.has(hunk.dataset.id));

  function tickButton() {
    const list = shown();
    $("tick-shown").textContent = allTicked(list) ? "untick all shown" : "tick all shown";
    $("tick-shown").disabled = !list.length;
  }

  function clear() {
    for (const id of ["f-codemod", "f-grade", "f-where", "f-role", "f-file"]) $(id).value = "";
    $("f-open").checked = false;
  }

  function filter() {
    const codemod = $("f-codemod").value, grade = $("f-grade").value, role = $("f-role").value;
    const file = $("f-file").value.trim().toLowerCase(), open = $("f-open").checked, where = $("f-where").value;
    for (const section of document.querySelectorAll(".file")) {
      const fits = (!role || section.dataset.role === role) && (!where || section.dataset.where === where) &&
        section.dataset.path.toLowerCase().includes(file);
      let any = false;
      for (const hunk of section.querySelectorAll(".hunk")) {
        hunk.hidden = !(fits && (!codemod || hunk.dataset.codemods.split(" ").includes(codemod)) &&
          (!grade || hunk.dataset.grade === grade) && !(open && ticked.has(hunk.dataset.id)));
        any ||= !hunk.hidden;
      }
      section.hidden = !any;
    }
    const count = shown().length;
    $("shown").textContent = `${count} of ${hunks.length} changes shown`;
    $("nothing").hidden = count > 0;
    tickButton();
  }

  // removed lines beside the added ones of the same run; made when it is first asked for
  function beside(table) {
    const side = table.cloneNode(false), body = side.createTBody();
    side.classList.add("split");
    const cells = (row, at, kind) => {
      const number = row?.cells[at].cloneNode(true) ?? Object.assign(document.createElement("td"), { className: "at" });
      const line = row?.cells[3].cloneNode(true) ?? Object.assign(document.createElement("td"), { className: "line none" });
      if (row && kind && row.className) line.classList.add(kind);
      return [number, line];
    };
    let old = [], fresh = [];
    const flush = () => {
      for (let at = 0; at < Math.max(old.length, fresh.length); at += 1) {
        body.insertRow().append(...cells(old[at], 0, "del"), ...cells(fresh[at], 1, "add"));
      }
      old = [];
      fresh = [];
    };
    for (const row of table.rows) {
      if (row.className === "del") old.push(row);
      else if (row.className === "add") fresh.push(row);
      else {
        flush();
        body.insertRow().append(...cells(row, 0, ""), ...cells(row, 1, ""));
      }
    }
    flush();
    return side;
  }

  function split(on) {
    for (const scroll of document.querySelectorAll(".scroll")) {
      const one = scroll.firstElementChild;
      if (on && !one.nextElementSibling) scroll.append(beside(one));
      if (one.nextElementSibling) one.nextElementSibling.hidden = !on;
      one.hidden = on;
    }
    memory.set("verl-patch:split", on);
  }

  function go(step, wanted) {
    const list = shown();
    if (!list.length) return;
    const at = list.indexOf(hunks[current]);
    const next = wanted ?? list[Math.min(Math.max(at + step, 0), list.length - 1)];
    hunks[current]?.classList.remove("current");
    current = hunks.indexOf(next);
    next.classList.add("current");
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: next.offsetHeight > innerHeight / 2 ? "start" : "center" });
  }

  for (const hunk of hunks) {
    paint(hunk, ticked.has(hunk.dataset.id));
    hunk.querySelector(".reviewed").addEventListener("change", (event) => tick([hunk], event.target.checked));
    hunk.addEventListener("focusin", () => {
      hunks[current]?.classList.remove("current");
      current = hunks.indexOf(hunk);
      hunk.classList.add("current");
    });
  }
  for (const id of ["f-codemod", "f-grade", "f-where", "f-role", "f-open"]) $(id).addEventListener("change", filter);
  $("f-file").addEventListener("input", filter);
  $("tick-shown").addEventListener("click", () => tick(shown(), !allTicked(shown())));
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  for (const link of document.querySelectorAll("[data-grade][href], [data-codemod]")) {
    link.addEventListener("click", () => {
      clear();
      $("f-grade").value = link.dataset.grade ?? "";
      $("f-codemod").value = link.dataset.codemod ?? "";
      $("f-where").value = link.dataset.where ?? "";
      filter();
    });
  }
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
      clear();
      filter();
      event.target.blur?.();
    } else if (typing || $("keys").open) {
      return;
    } else if (event.key === "j") go(1);
    else if (event.key === "k") go(-1);
    else if (event.key === "x" && current >= 0) {
      const hunk = hunks[current];
      const on = !ticked.has(hunk.dataset.id);
      const next = shown()[shown().indexOf(hunk) + 1];
      tick([hunk], on);
      if (on && next) go(0, next);
    } else if (event.key === "s") { $("split").checked = !$("split").checked; split($("split").checked); }
    else if (event.key === "/") $("f-file").focus();
    else if (event.key === "?") $("keys").showModal();
    else return;
    event.preventDefault();
  });

  // what is jumped to must not lie below the bar, whose height follows the window's width
  const bar = document.querySelector(".filters");
  new ResizeObserver(() => {
    const sticks = getComputedStyle(bar).position === "sticky";
    document.documentElement.style.setProperty("--bar", `${sticks ? bar.offsetHeight + 12 : 12}px`);
  }).observe(bar);

  $("split").checked = memory.get("verl-patch:split", false) && innerWidth > 736;
  if ($("split").checked) split(true);
  progress();
  filter();
})();
