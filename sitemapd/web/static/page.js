// Keeps the page up to date: the feed and the headline by server-sent events, the rest by fetching the
// page again. Without this script everything is there all the same, as of the moment it was loaded.
"use strict";

const REFRESH_MS = 30000;
const MOST_ROWS = 20;
let paused = false;

function size(bytes) {
  const units = ["B", "kB", "MB"];
  let value = bytes;
  for (const unit of units) {
    if (value < 1000) return (unit === "B" || value >= 100 ? value.toFixed(0) : value.toFixed(1)) + " " + unit;
    value /= 1000;
  }
  return value.toFixed(1) + " GB";
}

function duration(ms) {
  if (ms < 1000) return ms.toFixed(0) + " ms";
  if (ms < 60000) return (ms / 1000).toFixed(1) + " s";
  if (ms < 7200000) return (ms / 60000).toFixed(0) + " min";
  if (ms < 172800000) return (ms / 3600000).toFixed(0) + " h";
  return (ms / 86400000).toFixed(0) + " d";
}

// Shows the moments below `root` in the reader's zone; the server writes them in UTC.
function localise(root) {
  const format = new Intl.DateTimeFormat("sv", { dateStyle: "short", timeStyle: "medium" });
  const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" });
  for (const time of root.querySelectorAll("time[datetime]")) {
    if (!time.textContent.endsWith(" UTC")) continue;
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    const name = zone.formatToParts(at).find((part) => part.type === "timeZoneName").value;
    time.textContent = format.format(at) + " " + name;
  }
}

function published(table, entry) {
  const at = new Date(entry.at).toISOString();
  const row = document.createElement("tr");
  row.className = "new";
  const cells = [
    null, entry.file + (entry.gone ? " (gone: empty)" : ""), entry.section, entry.urls.toLocaleString("en"),
    entry.events.toLocaleString("en"), size(entry.bytes), duration(entry.lag_ms),
  ];
  cells.forEach((text, place) => {
    const cell = document.createElement("td");
    if (place > 2) cell.className = "n";
    if (place === 1) cell.className = "file";
    if (place === 0) {
      const time = document.createElement("time");
      time.dateTime = at;
      time.textContent = at.slice(0, 10) + " " + at.slice(11, 19) + " UTC";
      cell.append(time);
    } else if (place === 2 || (place === 1 && !entry.gone)) {
      const anchor = document.createElement("a");
      anchor.href = place === 1 ? table.dataset.files + entry.file : table.dataset.section + encodeURIComponent(entry.section);
      anchor.textContent = text;
      cell.append(anchor);
    } else {
      cell.textContent = text;
    }
    row.append(cell);
  });
  const body = table.tBodies[0];
  body.querySelector(".none")?.remove();
  localise(row);
  body.prepend(row);
  while (body.rows.length > MOST_ROWS) body.deleteRow(-1);
}

function follow(table) {
  const status = document.getElementById("live");
  const button = document.getElementById("pause");
  let cursor = table.dataset.after;
  let source = null;

  function say(text, on) {
    if (status.textContent !== text) status.textContent = text;
    status.classList.toggle("on", on);
    status.hidden = false;
  }

  function open() {
    source = new EventSource(table.dataset.src + "?after=" + encodeURIComponent(cursor));
    source.onopen = () => say("Live", true);
    source.onerror = () => {
      say("Not connected, trying again", false);
      if (source.readyState === EventSource.CLOSED && !paused) {
        source = null;
        setTimeout(() => { if (!paused && !source) open(); }, 5000);
      }
    };
    source.addEventListener("published", (event) => {
      cursor = event.lastEventId;
      published(table, JSON.parse(event.data));
    });
    source.addEventListener("numbers", (event) => {
      for (const [name, text] of Object.entries(JSON.parse(event.data))) {
        const place = document.querySelector(`[data-live="${CSS.escape(name)}"]`);
        if (place) place.textContent = text;
      }
    });
  }

  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    button.textContent = paused ? "Go on" : "Pause";
    if (paused) {
      source?.close();
      source = null;
      say("Paused", false);
    } else {
      open();
    }
  });
  open();
}

async function refresh() {
  if (paused || document.hidden) return;
  let answer;
  try {
    answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  } catch {
    return; // away for a moment: the status line says so
  }
  if (!answer.ok || answer.redirected) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-refresh]")) {
    const now = fresh.getElementById(old.id);
    if (!now || old.contains(document.activeElement)) continue; // never from under somebody's keyboard
    for (const details of old.querySelectorAll("details[open]")) {
      const same = now.querySelectorAll("details")[[...old.querySelectorAll("details")].indexOf(details)];
      if (same) same.open = true;
    }
    localise(now);
    old.replaceWith(document.adoptNode(now));
  }
}

localise(document);
const table = document.getElementById("feed");
if (table) follow(table);
if (document.querySelector("[data-refresh]")) setInterval(refresh, REFRESH_MS);
