(() => {
  "use strict";
  const svg = document.documentElement.namespaceURI.endsWith("svg") ? document.documentElement : document.querySelector("svg");
  const letter = 7.25;
  // A frame spans [start, start + width) of the whole, in bytes, in row `depth`.
  const frames = Array.from(svg.querySelectorAll(".frame"), (group) => ({
    group,
    rect: group.querySelector("rect"),
    text: group.querySelector("text"),
    title: group.querySelector("title").textContent,
    label: group.dataset.label,
    start: +group.dataset.start,
    width: +group.dataset.width,
    depth: +group.dataset.depth,
  }));
  const whole = frames[0].width || 1;
  const told = svg.querySelector(".told");
  const search = svg.querySelector("input");
  const back = svg.querySelector("button");
  let focus = frames[0];

  const bytes = (count) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (count >= 1023.95 && unit + 1 < units.length) { count /= 1024; unit += 1; }
    return unit ? `${count.toFixed(1)} ${units[unit]}` : `${count} B`;
  };

  const fit = (label, room) => {
    const letters = Math.floor((room - 6) / letter);
    if (letters < 3) return "";
    return label.length <= letters ? label : label.slice(0, letters - 1) + "…";
  };

  const draw = () => {
    const room = svg.clientWidth || svg.getBoundingClientRect().width || 1200;
    const end = focus.start + focus.width;
    for (const frame of frames) {
      const outer = frame.depth < focus.depth;
      const covers = outer && frame.start <= focus.start && frame.start + frame.width >= end;
      const inside = !outer && frame.start >= focus.start && frame.start + frame.width <= end;
      const part = frame.width / (focus.width || 1);
      const shown = covers || (inside && (part * room >= 0.4 || frame === focus));
      frame.group.classList.toggle("hidden", !shown);
      frame.group.classList.toggle("outer", covers);
      if (!shown) continue;
      const x = covers ? 0 : (frame.start - focus.start) / (focus.width || 1);
      const width = covers ? 1 : part;
      frame.rect.setAttribute("x", `${x * 100}%`);
      frame.rect.setAttribute("width", `${width * 100}%`);
      frame.text.setAttribute("x", `${x * 100}%`);
      frame.text.textContent = fit(frame.label, width * room);
    }
    back.style.visibility = focus === frames[0] ? "hidden" : "visible";
  };

  const zoom = (frame) => { focus = frame; draw(); };

  const find = () => {
    const wanted = search.value.trim();
    svg.classList.toggle("searching", wanted !== "");
    let matches;
    try {
      const pattern = new RegExp(wanted, "i");
      matches = (frame) => pattern.test(frame.title.split("\n", 1)[0]);
    } catch {
      matches = (frame) => frame.title.toLowerCase().includes(wanted.toLowerCase());
    }
    // Frames come in the order of the tree: one that begins before `end` lies in a match that is counted already.
    let held = 0, end = 0, number = 0;
    for (const frame of frames) {
      const hit = wanted !== "" && frame !== frames[0] && matches(frame);
      frame.group.classList.toggle("hit", hit);
      if (!hit) continue;
      number += 1;
      if (frame.start >= end) { held += frame.width; end = frame.start + frame.width; }
    }
    told.textContent = wanted === "" ? "" :
      `${number} frames match, together ${bytes(held)}, ${(held * 100 / whole).toFixed(1)} %`;
  };

  for (const frame of frames) {
    frame.group.addEventListener("click", () => zoom(frame));
    frame.group.addEventListener("mouseenter", () => { told.textContent = frame.title.split("\n").join("  ·  "); });
    frame.group.addEventListener("mouseleave", find);
  }
  search.addEventListener("input", find);
  back.addEventListener("click", () => zoom(frames[0]));
  window.addEventListener("resize", draw);
  window.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
    if (event.key === "Escape") { search.value = ""; search.blur(); find(); zoom(frames[0]); }
  });
  svg.querySelector(".tools").classList.remove("hidden");
  draw();
})();
