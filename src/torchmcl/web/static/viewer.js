"use strict";
// Draws a localized recording: a map of the sphere and a timeline that move with playback.
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7a5195", "#6b8e23"];

class Viewer {
  constructor(root, result, audioSource) {
    this.root = root;
    this.result = result;
    this.muted = new Set();
    this.start = 0;
    this.end = result.duration;
    this.build(audioSource);
    this.resize = () => this.draw();
    window.addEventListener("resize", this.resize);
    this.media = window.matchMedia("(prefers-color-scheme: dark)");
    this.media.addEventListener("change", this.resize);
    this.draw();
    this.tick();
  }

  close() {
    this.closed = true;
    window.removeEventListener("resize", this.resize);
    window.removeEventListener("pointerup", this.release);
    this.media.removeEventListener("change", this.resize);
    this.audio.pause();
  }

  build(audioSource) {
    this.root.replaceChildren();
    this.canvases();
    this.timeline.setAttribute("aria-valuemax", this.result.duration.toFixed(1));
    this.audio = add(this.root, "audio", { controls: true, preload: "auto" });
    if (audioSource) this.audio.src = audioSource;
    const bar = add(this.root, "div", { className: "row left" });
    this.button(bar, "Zoom in", () => this.zoom(0.5));
    this.button(bar, "Zoom out", () => this.zoom(2));
    this.button(bar, "Whole recording", () => this.window(0, this.result.duration));
    this.clock = add(bar, "span", { className: "soft" });
    const list = this.trackList();
    if (!this.result.tracks.length) add(list, "span", { className: "soft", textContent: "No source was found." });
    for (const track of this.result.tracks) this.trackButton(list, track);
    this.status = add(this.root, "p", { className: "soft" });
    this.status.setAttribute("aria-live", "polite");
    this.events();
  }

  canvases() {
    const views = add(this.root, "div", { className: "views" });
    this.map = add(add(views, "div", { className: "panel" }), "canvas", { tabIndex: 0 });
    this.map.setAttribute("role", "img");
    this.timeline = add(add(views, "div", { className: "panel" }), "canvas", { tabIndex: 0 });
    this.timeline.setAttribute("role", "slider");
    this.timeline.setAttribute("aria-label", "Timeline: arrow keys move, plus and minus zoom, space plays");
    this.timeline.setAttribute("aria-valuemin", "0");
  }

  trackList() {
    const list = add(this.root, "div", { className: "row left" });
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", "Tracks: press to mute");
    return list;
  }

  get paused() { return this.audio.paused; }

  button(parent, text, action) {
    const made = add(parent, "button", { type: "button", textContent: text });
    made.addEventListener("click", action);
    return made;
  }

  trackButton(list, track) {
    const made = this.button(list, "", () => {
      if (!this.muted.delete(track.id)) this.muted.add(track.id);
      made.setAttribute("aria-pressed", String(this.muted.has(track.id)));
      this.draw();
    });
    made.className = "track";
    made.setAttribute("aria-pressed", "false");
    add(made, "i").style.background = color(track);
    add(made, "span", { textContent: this.trackText(track) });
    return made;
  }

  trackText(track) {
    const first = track.points[0], last = track.points[track.points.length - 1];
    return `Track ${track.id}: ${first[0].toFixed(1)} – ${(last[0] + this.result.frame).toFixed(1)} s`;
  }

  events() {
    const seek = (event) => {
      const box = this.timeline.getBoundingClientRect();
      const share = (event.clientX - box.left - this.margin) / (box.width - this.margin - 8);
      this.seek(this.start + Math.min(1, Math.max(0, share)) * (this.end - this.start));
    };
    this.timeline.addEventListener("pointerdown", (event) => { this.dragging = true; seek(event); });
    this.timeline.addEventListener("pointermove", (event) => { if (this.dragging) seek(event); });
    this.release = () => { this.dragging = false; };
    window.addEventListener("pointerup", this.release);
    this.timeline.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
    }, { passive: false });
    for (const canvas of [this.timeline, this.map]) canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const step = (this.end - this.start) / 50;
    const actions = {
      " ": () => this.toggle(),
      ArrowRight: () => this.seek(this.time + step), ArrowLeft: () => this.seek(this.time - step),
      Home: () => this.seek(0), End: () => this.seek(this.result.duration),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  toggle() { if (this.paused) this.audio.play(); else this.audio.pause(); }

  get time() { return this.audio.src ? this.audio.currentTime : (this.at || 0); }

  seek(time) {
    this.at = Math.min(this.result.duration, Math.max(0, time));
    if (this.audio.src) this.audio.currentTime = this.at;
    this.draw(this.at);
  }

  zoom(factor) {
    const width = Math.min(this.result.duration, Math.max(1, (this.end - this.start) * factor));
    const start = Math.min(Math.max(0, this.time - width / 2), Math.max(0, this.result.duration - width));
    this.window(start, start + width);
  }

  window(start, end) { [this.start, this.end] = [start, end]; this.draw(); }

  tick() {
    if (this.closed) return;
    if (!this.paused) {
      const width = this.end - this.start;
      if (this.time > this.end || this.time < this.start) {
        this.start = Math.min(Math.max(0, this.time - width / 10), Math.max(0, this.result.duration - width));
        this.end = this.start + width;
      }
      this.draw();
    }
    requestAnimationFrame(() => this.tick());
  }

  draw(time = this.time) {
    const heard = this.result.tracks.filter((track) => !this.muted.has(track.id));
    const now = heard.map((track) => [track, at(track.points, time, this.result.frame)]).filter(([, point]) => point);
    this.drawMap(now, heard, time);
    this.drawTimeline(heard, time);
    this.clock.textContent = this.clockText(time);
    this.timeline.setAttribute("aria-valuenow", time.toFixed(1));
    const said = now.map(([track, p]) => `track ${track.id} at azimuth ${Math.round(p[1])}°, elevation ${Math.round(p[2])}°`);
    this.map.setAttribute("aria-label", said.join("; ") || "no source at this moment");
    // Not while it moves: a screen reader would never end.
    this.status.textContent = this.paused ? said.join("; ") || "No source at this moment." : "\u00a0";
  }

  clockText(time) { return `${time.toFixed(1)} s of ${this.result.duration.toFixed(1)} s`; }

  drawMap(now, heard, time) {
    const [pen, width, height] = canvas(this.map, 0.5, 180, 460);
    const style = palette();
    const left = 34, bottom = 20;
    const x = (azimuth) => left + (180 - azimuth) / 360 * (width - left - 6);
    const y = (elevation) => 6 + (90 - elevation) / 180 * (height - bottom - 6);
    const words = width > 600 ? { 180: " back", 90: " left", 0: " front", "-90": " right" } : {};
    grid(pen, style, [-180, -90, 0, 90, 180].map((v) => [x(v), `${v}°${words[v] || ""}`]), [-90, -45, 0, 45, 90].map((v) => [y(v), `${v}°`]),
      { left, right: width - 6, top: 6, bottom: height - bottom });
    for (const track of heard) {
      const trail = track.points.filter((p) => p[0] <= time && p[0] > time - 2);
      pen.fillStyle = color(track);
      pen.globalAlpha = 0.25;
      for (const p of trail) dot(pen, x(p[1]), y(p[2]), 3);
      pen.globalAlpha = 1;
    }
    for (const [track, p] of now) {
      pen.strokeStyle = pen.fillStyle = color(track);
      ring(pen, p, x, y);
      dot(pen, x(p[1]), y(p[2]), 5 + 4 * p[3]);
      pen.fillStyle = style.ink;
      pen.fillText(String(track.id), x(p[1]) + 11, y(p[2]) - 8);
    }
  }

  drawTimeline(heard, time) {
    const [pen, width, height] = canvas(this.timeline, 0.42, 340, 420);
    const style = palette();
    const left = this.margin = 40;
    const x = (t) => left + (t - this.start) / (this.end - this.start) * (width - left - 8);
    const lanes = [[6, height * 0.5, 1, 180], [height * 0.53, height * 0.8, 2, 90]];
    const times = steps(this.start, this.end, width / 90);
    lanes.forEach(([top, bottom, column, limit], index) => {
      const y = (value) => top + (limit - value) / (2 * limit) * (bottom - top);
      grid(pen, style, times.map((t) => [x(t), ""]), [-limit, 0, limit].map((v) => [y(v), `${v}°`]),
        { left, right: width - 8, top, bottom });
      pen.save();
      pen.beginPath(); pen.rect(left, top - 3, width - left - 8, bottom - top + 6); pen.clip();
      pen.fillStyle = style.soft;
      for (const p of this.result.hypotheses || []) {
        if (p[0] < this.start || p[0] > this.end) continue;
        pen.globalAlpha = 0.3 * p[3];
        pen.fillRect(x(p[0]), y(p[column]), 1.5, 1.5);
      }
      pen.globalAlpha = 1;
      for (const track of heard) {
        pen.fillStyle = color(track);
        const wide = Math.max(2, x(this.start + this.result.frame) - x(this.start));
        for (const p of track.points) {
          if (p[0] < this.start - 1 || p[0] > this.end) continue;
          const region = Math.min(p[4] || 0, limit);
          pen.globalAlpha = 0.15;
          if (region) pen.fillRect(x(p[0]), y(p[column] + region), wide, y(p[column] - region) - y(p[column] + region));
          pen.globalAlpha = 1;
          pen.fillRect(x(p[0]), y(p[column]) - 1.5, wide, 3);
        }
      }
      pen.restore();
      caption(pen, style, ["azimuth (left is positive)", "elevation"][index], left + 4, top + 12);
    });
    this.drawCount(pen, style, x, left, width, height, times);
    pen.strokeStyle = style.ink;
    pen.beginPath(); pen.moveTo(x(time), 2); pen.lineTo(x(time), height - 18); pen.stroke();
  }

  drawCount(pen, style, x, left, width, height, times) {
    const top = height * 0.84, bottom = height - 18;
    const y = (value) => bottom - Math.min(value, 4) / 4 * (bottom - top);
    grid(pen, style, times.map((t) => [x(t), `${Number(t.toFixed(2))} s`]), [0, 2, 4].map((v) => [y(v), String(v)]),
      { left, right: width - 8, top, bottom });
    pen.strokeStyle = style.accent;
    pen.save();
    pen.beginPath(); pen.rect(left, top, width - left - 8, bottom - top); pen.clip();
    pen.beginPath();
    for (const [t, count] of this.result.count) {
      pen.lineTo(x(t), y(count));
      pen.lineTo(x(t + this.result.frame), y(count));
    }
    pen.stroke();
    pen.restore();
    caption(pen, style, "number of sources", left + 4, top + 10);
  }
}

function add(parent, tag, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  parent.appendChild(made);
  return made;
}

function color(track) { return COLORS[(track.id - 1) % COLORS.length]; }

function palette() {
  const style = getComputedStyle(document.documentElement);
  const get = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ink: get("ink"), soft: get("soft"), grid: get("grid"), accent: get("accent"), panel: get("panel") };
}

function canvas(element, ratio, lowest, highest) {
  const width = element.clientWidth, height = Math.min(highest, Math.max(lowest, width * ratio));
  const scale = window.devicePixelRatio || 1;
  element.style.height = `${height}px`;
  if (element.width !== Math.round(width * scale) || element.height !== Math.round(height * scale)) {
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
  }
  const pen = element.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  pen.lineWidth = 1.5;
  return [pen, width, height];
}

function grid(pen, style, columns, rows, box) {
  pen.strokeStyle = style.grid;
  pen.fillStyle = style.soft;
  for (const [x, label] of columns) {
    if (x < box.left - 1 || x > box.right + 1) continue;
    pen.beginPath(); pen.moveTo(x, box.top); pen.lineTo(x, box.bottom); pen.stroke();
    const wide = pen.measureText(label).width;
    pen.fillText(label, Math.min(Math.max(x - wide / 2, 0), box.right - wide + 6), box.bottom + 14);
  }
  for (const [y, label] of rows) {
    pen.beginPath(); pen.moveTo(box.left, y); pen.lineTo(box.right, y); pen.stroke();
    pen.fillText(label, box.left - 5 - pen.measureText(label).width, y + 4);
  }
}

// Words on a ground of their own, so that they can be read over the data.
function caption(pen, style, text, x, y) {
  pen.fillStyle = style.panel;
  pen.globalAlpha = 0.8;
  pen.fillRect(x - 2, y - 10, pen.measureText(text).width + 4, 13);
  pen.globalAlpha = 1;
  pen.fillStyle = style.soft;
  pen.fillText(text, x, y);
}

function steps(start, end, most) {
  const unit = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1200].find((u) => (end - start) / u <= most) || 3600;
  const found = [];
  for (let t = Math.ceil(start / unit) * unit; t <= end + 1e-9; t += unit) found.push(t);
  return found;
}

function dot(pen, x, y, radius) { pen.beginPath(); pen.arc(x, y, radius, 0, 2 * Math.PI); pen.fill(); }

// The circle of p[4] degrees around a direction, as it looks on the map.
function ring(pen, p, x, y) {
  if (!p[4]) return;
  const rad = Math.PI / 180, reach = p[4] * rad, elevation = p[2] * rad;
  pen.beginPath();
  let before = null;
  for (let turn = 0; turn <= 360; turn += 6) {
    const sine = Math.sin(elevation) * Math.cos(reach) + Math.cos(elevation) * Math.sin(reach) * Math.cos(turn * rad);
    const aside = Math.atan2(Math.sin(turn * rad) * Math.sin(reach) * Math.cos(elevation), Math.cos(reach) - Math.sin(elevation) * sine);
    const azimuth = ((p[1] + aside / rad + 540) % 360) - 180;
    const place = [x(azimuth), y(Math.asin(Math.max(-1, Math.min(1, sine))) / rad)];
    if (before && Math.abs(before[0] - place[0]) > 60) pen.moveTo(...place); else pen.lineTo(...place);
    before = place;
  }
  pen.stroke();
}

// The point of a track at a time: the last one that began at most a frame ago.
function at(points, time, frame) {
  let low = 0, high = points.length - 1, found = null;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= time + 1e-6) { found = points[middle]; low = middle + 1; } else high = middle - 1;
  }
  return found && time - found[0] < frame * 1.5 ? found : null;
}
