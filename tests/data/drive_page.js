// Uses the review page as a person would and writes what came out into the document.
(() => {
  const errors = [], checks = {};
  addEventListener("error", (event) => errors.push(event.message));
  const $ = (id) => document.getElementById(id);
  const all = [...document.querySelectorAll(".hunk")];
  const visible = () => all.filter((hunk) => hunk.offsetParent !== null);
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const choose = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("change", { bubbles: true })); };
  const done = () => {
    const out = document.createElement("pre");
    out.id = "driven";
    out.textContent = JSON.stringify({ errors, checks });
    document.body.append(out);
  };
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
    press("s");
    const beside = all[0].querySelector("table.split");
    checks.side_by_side = beside !== null && beside.offsetParent !== null && all[0].querySelector(".unified").offsetParent === null;
    press("s");
    checks.unified_again = all[0].querySelector(".unified").offsetParent !== null;
    const dark = document.documentElement.classList.contains("dark");
    $("theme").click();
    checks.theme = document.documentElement.classList.contains("dark") !== dark;
    press("?");
    checks.help = $("keys").open;
    $("keys").close();
    press("/");
    checks.slash = document.activeElement === $("f-file");
    checks.no_sideways_scrolling = document.documentElement.scrollWidth <= innerWidth;
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
})();
