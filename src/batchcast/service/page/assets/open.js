// SPDX-License-Identifier: Apache-2.0
// What a reader has opened stays open when fresh answers arrive.
"use strict";
let opened = [];
document.addEventListener("htmx:sseBeforeMessage", () => {
  opened = [...document.querySelectorAll("details[open][id]")].map((one) => one.id);
});
document.addEventListener("htmx:sseMessage", () => {
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
});
