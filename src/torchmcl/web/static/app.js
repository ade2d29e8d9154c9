"use strict";
// Uploads a file, follows its analysis, and shows the result.
const $ = (id) => document.getElementById(id);
const DOORS = ["live", "recordings", "tables", "tracks"];
let viewer = null, current = null, table = null, live = null, largest = Infinity;
let shown = "";  // the door whose result is on the page

async function call(method, path, body) {
  const answer = await fetch(path, { method, body });
  if (answer.status === 204) return null;
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(said.error || detail(said) || `the server answered ${answer.status}`);
  return said;
}

function detail(said) {
  return typeof said.detail === "string" ? said.detail : (said.detail || []).map((each) => each.msg).join("; ");
}

function fail(error) {
  $("error").textContent = error.message || String(error);
  $("error").hidden = false;
  $("work").hidden = true;
}

function reset(name) {
  $("error").hidden = true;
  $("work").hidden = false;
  $("work-name").textContent = name;
  $("work-progress").value = 0;
}

function upload(kind, file, name, options = {}) {
  // The server would say so too, but browsers drop the answer to an upload that was cut off.
  if (file.size > largest) return Promise.reject(new Error(`${name}: the file is too large: at most ${Math.floor(largest / 2 ** 20)} MB are accepted`));
  const words = new URLSearchParams({ name, ...options });
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `api/${kind}?${words}`);
    request.responseType = "json";
    request.upload.onprogress = (event) => say("uploading", event.lengthComputable ? event.loaded / event.total : 0);
    request.onerror = () => reject(new Error("the upload was interrupted"));
    request.onload = () => request.status === 202 ? resolve(request.response)
      : reject(new Error((request.response && (request.response.error || detail(request.response))) || `the server answered ${request.status}`));
    current = { cancel: () => request.abort() };
    request.onabort = () => reject(new Error("cancelled"));
    request.send(file);
  });
}

function say(state, progress) {
  $("work-state").textContent = `${state} (${Math.round(100 * progress)} %)`;
  $("work-progress").value = progress;
}

async function analyze(kind, name, begin) {
  if (current) await abandon();
  reset(name);
  try {
    const started = await begin();
    current = { id: started.id, cancel: () => abandon() };
    const done = await follow(started.id);
    $("work").hidden = true;
    if (kind === "predictions") await showPredictions(done); else await show(done);
  } catch (error) { fail(error); }
}

async function follow(id) {
  for (;;) {
    const status = await call("GET", `api/analyses/${id}`);
    if (status.state === "done") return status;
    if (status.state === "failed") throw new Error(status.message);
    if (status.state === "cancelled") throw new Error("cancelled");
    say(status.state, status.progress);
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

async function abandon() {
  const left = current;
  current = null;
  if (left && left.id && left.id !== (table && table.id)) {
    await fetch(`api/analyses/${left.id}`, { method: "DELETE", keepalive: true }).catch(() => {});
  }
}

async function show(status) {
  const base = `api/analyses/${status.id}/files/`;
  if (viewer) { viewer.close(); viewer = null; }
  shown = status.kind;
  door(shown);
  $("preview").replaceChildren();
  $("preview").removeAttribute("tabindex");
  $("result-name").textContent = status.name;
  $("predict").hidden = status.kind !== "tables";
  table = status.kind === "tables" ? status : null;
  if (status.kind === "recordings") {
    const result = await call("GET", `${base}view.json`);
    viewer = new Viewer($("view"), result, `${base}playback.ogg`);
  } else {
    const frame = document.createElement("iframe");
    frame.title = status.kind === "tables" ? "Report" : "Futures";
    frame.setAttribute("sandbox", "allow-scripts");
    frame.src = base + (status.kind === "tables" ? "report.html" : "scene.html");
    $("view").replaceChildren(frame);
  }
  links($("files"), base, status.files.filter((name) => !["view.json", "playback.ogg"].includes(name)));
  $("result").scrollIntoView({ behavior: "smooth", block: "start" });
}

async function showPredictions(status) {
  const base = `api/analyses/${status.id}/files/`;
  const text = await (await fetch(`${base}predictions.csv`)).text();
  const rows = text.trim().split("\n").slice(0, 21).map((line) => line.split(","));
  const made = add($("preview"), "table");
  $("preview").replaceChildren(made);
  $("preview").tabIndex = 0;  // a wide table is scrolled by keyboard as well
  rows.forEach((cells, index) => {
    const row = add(made, "tr");
    for (const cell of cells) {
      const number = Number(cell);
      const shown = index && cell !== "" && Number.isFinite(number) ? String(Number(number.toPrecision(5))) : cell;
      add(row, index ? "td" : "th", { textContent: shown });
    }
  });
  links($("preview"), base, status.files);
}

function links(parent, base, names) {
  if (parent.id === "files") parent.replaceChildren();
  for (const name of names) add(parent, "a", { href: base + name, download: name, textContent: name });
}

function door(name) {
  for (const each of DOORS) {
    $(`door-${each}`).hidden = each !== name;
    $(`tab-${each}`).setAttribute("aria-selected", String(each === name));
    $(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
  $("result").hidden = shown !== name;
  if (live) live.viewer.fresh = true;
  if (viewer && shown === name) viewer.draw();
}

function tabs() {
  DOORS.forEach((name) => {
    $(`tab-${name}`).addEventListener("click", () => door(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const open = DOORS.filter((each) => !$(`tab-${each}`).hidden);
      const next = open[(open.indexOf(name) + step + open.length) % open.length];
      door(next);
      $(`tab-${next}`).focus();
    });
  });
}

async function header(file) {
  const line = (await file.slice(0, 65536).text()).split(/\r?\n/)[0];
  const mark = [",", ";", "\t"].reduce((best, each) => line.split(each).length > line.split(best).length ? each : best);
  return line.split(mark).map((name) => name.trim().replace(/^"|"$/g, ""));
}

async function chooseTable(file) {
  const names = await header(file);
  $("target").replaceChildren(...names.map((name) => new Option(name, name)));
  $("target").value = names[names.length - 1];
  $("target").disabled = $("fit").disabled = false;
  $("fit").onclick = () =>
    analyze("tables", file.name, () => upload("tables", file, file.name, { target: $("target").value }));
}

function take(kind, file) {
  if (!file) return;
  if (kind === "tables") chooseTable(file);
  else analyze(kind, file.name, () => upload(kind, file, file.name, kind === "recordings" ? { format: $("format").value } : {}));
}

function doors() {
  for (const kind of DOORS.filter((each) => each !== "live")) {
    const place = $(`door-${kind}`).querySelector(".drop");
    place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
    place.addEventListener("dragleave", () => place.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      place.classList.remove("over");
      take(kind, event.dataTransfer.files[0]);
    });
    $(`file-${kind}`).addEventListener("change", (event) => take(kind, event.target.files[0]));
  }
  $("file-predictions").addEventListener("change", (event) => {
    const file = event.target.files[0];
    if (file && table) analyze("predictions", file.name, () => upload("predictions", file, file.name, { model: table.id }));
  });
  $("example").addEventListener("click", () => analyze("recordings", "Example", () => call("POST", "api/example")));
  $("cancel").addEventListener("click", () => { if (current) current.cancel(); });
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => event.preventDefault());
  window.addEventListener("pagehide", () => abandon());
}

// Recording: four channels of a device as 32-bit float samples in a WAV file.
async function record(button) {
  const stream = await navigator.mediaDevices.getUserMedia({
    audio: { channelCount: { ideal: 4 }, echoCancellation: false, noiseSuppression: false, autoGainControl: false },
  });
  const context = new AudioContext();
  const source = context.createMediaStreamSource(stream);
  const stop = () => { stream.getTracks().forEach((track) => track.stop()); context.close(); };
  const channels = stream.getAudioTracks()[0].getSettings().channelCount || source.channelCount;
  if (channels < 4) { stop(); throw new Error(`this device has ${channels} channels; four are needed`); }
  await context.audioWorklet.addModule("static/recorder.js");
  const node = new AudioWorkletNode(context, "recorder", { channelCount: 4, channelCountMode: "explicit", channelInterpretation: "discrete" });
  const parts = [];
  node.port.onmessage = (event) => parts.push(event.data);
  source.connect(node);
  button.textContent = "Stop";
  await new Promise((resolve) => button.addEventListener("click", resolve, { once: true }));
  button.textContent = "Record from a microphone array";
  stop();
  take("recordings", new File([wav(parts, context.sampleRate)], "recording.wav"));
}

function wav(parts, rate) {
  const bytes = parts.reduce((sum, part) => sum + part.byteLength, 0);
  const head = new DataView(new ArrayBuffer(44));
  const put = (at, text) => [...text].forEach((letter, index) => head.setUint8(at + index, letter.charCodeAt(0)));
  put(0, "RIFF"); head.setUint32(4, 36 + bytes, true); put(8, "WAVEfmt "); head.setUint32(16, 16, true);
  head.setUint16(20, 3, true); head.setUint16(22, 4, true); head.setUint32(24, rate, true);
  head.setUint32(28, rate * 16, true); head.setUint16(32, 16, true); head.setUint16(34, 32, true);
  put(36, "data"); head.setUint32(40, bytes, true);
  return new Blob([head.buffer, ...parts], { type: "audio/wav" });
}

let recording = false;
$("record").addEventListener("click", async () => {
  if (recording) return;
  recording = true;
  try { await record($("record")); } catch (error) { fail(error); }
  recording = false;
});
$("record").hidden = !(navigator.mediaDevices && navigator.mediaDevices.getUserMedia && window.AudioWorkletNode);
call("GET", "api/limits").then((limits) => {
  largest = limits.upload_bytes;
  for (const name of DOORS) $(`tab-${name}`).hidden = !limits.doors.includes(name);
  if (limits.doors.includes("live")) listen();
}).catch(fail);

function listen() {
  door("live");
  live = new LiveConnection(new LiveViewer($("live-view")), (words) => { $("live-state").textContent = words; });
}

tabs();
doors();
