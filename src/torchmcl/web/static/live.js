"use strict";
// Live sound: the same map and timeline, fed by a WebSocket.
// Seconds that the page remembers, that it shows at first, and for which an ended track keeps its button.
const KEPT = 120, SHOWN = 30, LISTED = 8;

class LiveViewer extends Viewer {
  constructor(root) {
    super(root, { duration: 0, frame: 0.1, tracks: [], count: [], hypotheses: [] });
    this.forget();
  }

  build() {
    this.root.replaceChildren();
    this.halted = false;
    this.buttons = new Map();
    this.canvases();
    this.timeline.setAttribute("aria-label", "Timeline: space pauses, arrow keys move, plus and minus zoom");
    const bar = add(this.root, "div", { className: "row left" });
    this.pauseButton = this.button(bar, "Pause", () => this.toggle());
    this.button(bar, "Zoom in", () => this.zoom(0.5));
    this.button(bar, "Zoom out", () => this.zoom(2));
    this.clock = add(bar, "span", { className: "soft" });
    this.list = this.trackList();
    this.status = add(this.root, "p", { className: "soft" });
    this.status.setAttribute("aria-live", "polite");
    this.events();
  }

  close() {
    this.closed = true;
    window.removeEventListener("resize", this.resize);
    window.removeEventListener("pointerup", this.release);
    this.media.removeEventListener("change", this.resize);
  }

  get paused() { return this.halted; }
  get time() { return this.halted ? this.at : this.result.duration; }

  forget() {
    Object.assign(this.result, { duration: 0, tracks: [], count: [] });
    this.muted.clear();
    this.width = SHOWN;
    this.at = 0;
    this.fresh = true;
  }

  take(line) {
    const result = this.result;
    result.duration = line.time + result.frame;
    result.count.push([line.time, line.counts.indexOf(Math.max(...line.counts)), Math.max(...line.counts)]);
    for (const source of line.sources) {
      const id = source.track + 1;
      let track = result.tracks.find((each) => each.id === id);
      if (!track) result.tracks.push(track = { id, points: [] });
      track.points.push([line.time, source.azimuth, source.elevation, source.score, source.radius || 0]);
    }
    this.trim(line.time - KEPT);
    this.fresh = true;
  }

  trim(oldest) {
    const result = this.result;
    const old = (points) => { let n = 0; while (n < points.length && points[n][0] < oldest) n++; points.splice(0, n); };
    old(result.count);
    for (const track of result.tracks) old(track.points);
    result.tracks = result.tracks.filter((track) => track.points.length);
    for (const id of this.muted) if (!result.tracks.some((track) => track.id === id)) this.muted.delete(id);
  }

  toggle() {
    this.at = this.time;
    this.halted = !this.halted;
    this.pauseButton.textContent = this.halted ? "Continue" : "Pause";
    this.fresh = true;
  }

  // Whoever looks back has stopped; the sound goes on meanwhile.
  seek(time) {
    if (!this.halted) this.toggle();
    this.at = Math.min(this.result.duration, Math.max(this.result.duration - KEPT, 0, time));
    this.fresh = true;
  }

  zoom(factor) {
    this.width = Math.min(KEPT, Math.max(5, this.width * factor));
    this.fresh = true;
  }

  tick() {
    if (this.closed) return;
    if (this.fresh && this.root.clientWidth) {
      this.fresh = false;
      this.follow();
      this.draw();
    }
    requestAnimationFrame(() => this.tick());
  }

  // The window ends now; while paused it moves only as far as the position needs.
  follow() {
    const late = this.halted ? Math.min(Math.max(this.end, this.at), this.at + this.width) : this.result.duration;
    this.end = Math.max(late, this.width);
    this.start = this.end - this.width;
    this.timeline.setAttribute("aria-valuemax", this.result.duration.toFixed(1));
    this.timeline.setAttribute("aria-valuemin", Math.max(0, this.result.duration - KEPT).toFixed(1));
    this.listTracks();
  }

  listTracks() {
    const oldest = this.time - LISTED;
    const shown = this.result.tracks.filter((track) => this.muted.has(track.id)
      || (track.points[0][0] <= this.time && track.points[track.points.length - 1][0] >= oldest));
    for (const [id, button] of this.buttons) {
      if (!shown.some((track) => track.id === id)) { button.remove(); this.buttons.delete(id); }
    }
    for (const track of shown) {
      if (!this.buttons.has(track.id)) this.buttons.set(track.id, this.trackButton(this.list, track));
    }
  }

  trackText(track) { return `Track ${track.id}`; }

  clockText(time) {
    return this.halted ? `paused at ${time.toFixed(1)} s, ${(this.result.duration - time).toFixed(1)} s behind` : `${time.toFixed(1)} s`;
  }
}

// One connection that comes back by itself; `say` is told in words how it stands.
class LiveConnection {
  constructor(viewer, say) {
    this.viewer = viewer;
    this.say = say;
    this.wait = 500;
    this.open();
  }

  open() {
    const address = new URL("api/live", document.baseURI);
    address.protocol = address.protocol.replace("http", "ws");
    this.socket = new WebSocket(address);
    this.socket.onmessage = (event) => this.take(JSON.parse(event.data));
    this.socket.onclose = (event) => {
      this.say(event.reason ? `${event.reason}; connecting again` : "the connection was lost; connecting again");
      setTimeout(() => this.open(), this.wait);
      this.wait = Math.min(2 * this.wait, 10000);
    };
  }

  take(message) {
    if (message.history) {
      this.wait = 500;
      this.viewer.forget();
      message.history.forEach((line) => this.viewer.take(line));
    }
    if (!message.state) this.viewer.take(message);
    else this.say({ starting: "waiting for sound", running: "listening", ended: message.message }[message.state]);
  }
}
