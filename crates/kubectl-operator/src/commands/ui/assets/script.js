"use strict";
// Renews what is looked at while somebody looks, and copies commands. All else works without it.
const PAUSE = 3000;
const main = document.getElementById("main");
const notice = document.getElementById("notice");

function say(text) {
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = text === "";
}

function addCopyButtons() {
  for (const code of main.querySelectorAll(".shell code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy: " + code.textContent);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    });
    code.after(button);
  }
}

// Whoever is writing, reading out of a selection, or on a link, is not to lose it.
function isBusy() {
  const active = document.activeElement;
  return (main.contains(active) && active.matches("input, .shell button")) || String(getSelection()) !== "";
}

let shown = main.innerHTML;
let isOver = false;

// Nothing is asked for any more: whoever has the port now may be somebody else.
function end(text) {
  isOver = true;
  say(text);
  const button = document.getElementById("approve");
  if (button) button.disabled = true;
}

async function renew() {
  if (document.hidden || isBusy()) return;
  const answer = await fetch(location.href);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const next = page.getElementById("main");
  const isOurs = page.documentElement.dataset.seal === document.documentElement.dataset.seal;
  if (answer.status === 403 || answer.status === 421 || (next && !isOurs) || (!next && answer.ok)) {
    end("This page is no longer served to you. Start kubectl operator ui again, and open its link.");
    return;
  }
  // What is shown is not known to be wrong.
  if (!next || answer.status >= 500) {
    say(next?.querySelector(".message")?.textContent ?? "The cluster did not respond.");
    return;
  }
  if (main.dataset.digest !== undefined) {
    const isSame = next.dataset.digest === main.dataset.digest;
    say(isSame ? "" : "The plan has changed. Reload the page before you approve.");
    document.getElementById("approve").disabled = !isSame;
    return;
  }
  say("");
  if (next.innerHTML === shown || isBusy()) return;
  const focused = main.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...main.querySelectorAll("details[open][id]")].map((details) => details.id);
  shown = next.innerHTML;
  main.replaceChildren(...next.childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  addCopyButtons();
  if (focused !== "") document.getElementById(focused)?.focus({ preventScroll: true });
}

async function goOn() {
  try {
    await renew();
  } catch {
    end("kubectl operator ui does not respond. Start it again, and open its link.");
  }
  if (!isOver) setTimeout(goOn, PAUSE);
}

// A drawing opens at the installed versions and the heads; if they are too far apart, at the installed ones, below what follows.
function showPlaces() {
  const drawing = main.querySelector(".drawing");
  if (!drawing) return;
  const frame = drawing.getBoundingClientRect();
  const span = (selector) => {
    const places = [...drawing.querySelectorAll(selector)].map((node) => node.getBoundingClientRect());
    const top = Math.min(...places.map((place) => place.top)) - frame.top + drawing.scrollTop;
    const bottom = Math.max(...places.map((place) => place.bottom)) - frame.top + drawing.scrollTop;
    const left = Math.min(...places.map((place) => place.left)) - frame.left + drawing.scrollLeft;
    return { isEmpty: places.length === 0, top, bottom, left };
  };
  const all = span(".node.installed, .node.head");
  if (all.isEmpty) return;
  const installed = span(".node.installed");
  const height = drawing.clientHeight;
  const margin = Math.min(64, height / 8);
  let top = all.top - margin;
  if (all.bottom - all.top > height - 2 * margin && !installed.isEmpty) {
    top = Math.max(top, installed.bottom + margin - height);
  }
  drawing.scrollTop = top;
  if (all.left > drawing.clientWidth / 2) drawing.scrollLeft = all.left - drawing.clientWidth / 4;
}

addCopyButtons();
showPlaces();
if (main.dataset.renewed !== undefined || main.dataset.digest !== undefined) {
  setTimeout(goOn, PAUSE);
}
