"use strict";
// Lists the routes of openapi.json: no library, nothing from elsewhere.
const add = (parent, tag, text = "") => parent.appendChild(Object.assign(document.createElement(tag), { textContent: text }));
fetch("openapi.json").then((answer) => answer.json()).then((api) => {
  const main = document.getElementById("routes");
  for (const line of api.info.description.trim().split("\n")) if (line) add(main, "p", line);
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const panel = add(main, "section");
      panel.className = "panel";
      add(panel, "h2", `${method.toUpperCase()} ${path}`);
      for (const line of (route.description || route.summary || "").split("\n\n")) add(panel, "p", line);
      for (const each of route.parameters || []) {
        add(panel, "p", `${each.name} (${each.in}${each.required ? ", required" : ""})`).className = "soft";
      }
    }
  }
});
