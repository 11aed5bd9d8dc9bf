// Uses the review page as a person would and returns what came out.
new Promise((resolve) => {
  const errors = [], checks = {};
  addEventListener("error", (event) => errors.push(event.message));
  const $ = (id) => document.getElementById(id);
  const all = [...document.querySelectorAll(".hunk")];
  const visible = () => all.filter((hunk) => hunk.offsetParent !== null);
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const choose = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("change", { bubbles: true })); };
  const done = () => resolve({ errors, checks });
  try {
    checks.all_shown = visible().length === all.length && all.length > 5;
    choose("f-codemod", "attention");
    checks.codemod = visible().length > 0 && visible().length < all.length &&
      visible().every((hunk) => hunk.dataset.codemods.split(" ").includes("attention"));
    choose("f-codemod", "");
    choose("f-grade", "review");
    checks.grade = visible().length > 0 && visible().every((hunk) => hunk.dataset.grade === "review");
    choose("f-grade", "");
    choose("f-role", "scripts");
    checks.role = visible().length > 0 && visible().every((hunk) => hunk.closest(".file").dataset.role === "scripts");
    press("Escape");
    checks.cleared = visible().length === all.length;
    $("f-file").value = "no such file";
    $("f-file").dispatchEvent(new Event("input", { bubbles: true }));
    checks.nothing_said = visible().length === 0 && !$("nothing").hidden;
    press("Escape");
    press("j");
    checks.j_focuses = document.activeElement === all[0] && all[0].classList.contains("current");
    press("j");
    press("k");
    checks.k_goes_back = document.activeElement === all[0];
    press("x");
    checks.x_ticks = all[0].querySelector(".reviewed").checked && document.activeElement === all[1];
    checks.counted = $("progress-text").textContent.startsWith("1 of ");
    checks.remembered = JSON.parse(localStorage.getItem(document.body.dataset.key))[0] === all[0].dataset.id;
    $("f-open").checked = true;
    $("f-open").dispatchEvent(new Event("change"));
    checks.open_only = visible().length === all.length - 1;
    press("Escape");
    checks.folded = all[0].querySelector(".scroll").offsetParent === null && all[1].querySelector(".scroll").offsetParent !== null;
    choose("f-codemod", "attention");
    $("tick-shown").click();
    checks.all_ticked = visible().every((hunk) => hunk.querySelector(".reviewed").checked);
    checks.ticks_counted = $("progress-text").textContent.startsWith(`${visible().length + 1} of `);
    $("tick-shown").click();
    checks.none_ticked = visible().every((hunk) => !hunk.querySelector(".reviewed").checked);
    document.querySelector(".counts a[data-grade=review]").click();
    checks.count_filters = visible().length > 0 && visible().every((hunk) => hunk.dataset.grade === "review") &&
      $("f-codemod").value === "";
    document.querySelector(".counts a[data-where]").click();
    const owned = visible().map((hunk) => hunk.closest(".file").dataset);
    checks.where_filters = owned.length > 0 && owned.every((file) => file.where === "verl" && file.role !== "scripts") &&
      visible().every((hunk) => hunk.dataset.grade === "review");
    document.querySelector("#mod-dtype a").click();
    checks.where_is_cleared = $("f-where").value === "";
    checks.codemod_filters = visible().length > 0 && visible().every((hunk) => hunk.dataset.codemods.includes("dtype"));
    press("Escape");
    all[1].focus();
    press("s");
    const [one, beside] = all[1].querySelectorAll("table");
    checks.side_by_side = beside.offsetParent !== null && one.offsetParent === null;
    const text = (table, cells) => [...table.querySelectorAll(cells)].map((cell) => cell.textContent).join("\n");
    checks.same_lines = text(one, "tr.del .line") === text(beside, "td.del") && text(one, "tr.add .line") === text(beside, "td.add");
    press("s");
    checks.one_column_again = one.offsetParent !== null && beside.offsetParent === null;
    const dark = document.documentElement.classList.contains("dark");
    $("theme").click();
    checks.theme = document.documentElement.classList.contains("dark") !== dark;
    press("?");
    checks.help = $("keys").open;
    $("keys").close();
    press("/");
    checks.slash = document.activeElement === $("f-file");
    // what the keyboard reaches lies below the bar that sticks to the top
    const under = document.querySelector(".filters").getBoundingClientRect();
    scrollTo(0, all[4].getBoundingClientRect().top + scrollY - 20);
    all[4].querySelector(".reviewed").focus();
    checks.focus_is_seen = document.activeElement.getBoundingClientRect().top >= document.querySelector(".filters").getBoundingClientRect().bottom;
    checks.bar_is_low = under.height < innerHeight / 3;
    const link = document.querySelector(".why a");
    link.click();
    setTimeout(() => {
      checks.why_opens = document.getElementById(link.hash.slice(1)).open;
      done();
    }, 100);
  } catch (error) {
    errors.push(String(error.stack || error));
    done();
  }
});
