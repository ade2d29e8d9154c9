"use strict";
// Lists the routes of openapi.json: no library, nothing from elsewhere.
const add = (parent, tag, text = "") => parent.appendChild(Object.assign(document.createElement(tag), { textContent: text }));

// Paragraphs and numbered lines, with words in backticks as code.
function prose(parent, text) {
  for (const part of text.trim().split(/\n\n|\n(?=\d\. )/)) {
    const line = add(parent, "p");
    part.split("`").forEach((piece, index) => {
      if (index % 2) add(line, "code", piece); else line.append(piece.replace(/\n/g, " "));
    });
  }
}

fetch("openapi.json").then((answer) => answer.json()).then((api) => {
  const main = document.getElementById("routes");
  prose(main, api.info.description);
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const panel = add(main, "section");
      panel.className = "panel";
      add(panel, "h2", `${method.toUpperCase()} ${path}`);
      prose(panel, route.description || route.summary || "");
      const names = (route.parameters || []).map((each) => `\`${each.name}\` (${each.in}${each.required ? ", required" : ""})`);
      if (names.length) prose(panel, `Parameters: ${names.join(", ")}.`);
    }
  }
});
