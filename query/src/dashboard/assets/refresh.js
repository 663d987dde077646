// Keeps the numbers fresh: fetches this page again and puts its main part in place of the old one.
"use strict";
async function refresh() {
  if (!document.hidden) {
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", cache: "no-store" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main");
      if (answer.redirected) location.reload();
      else if (fresh) document.querySelector("main").replaceWith(document.adoptNode(fresh));
    } catch {
      // away for now; the next try may find it
    }
  }
  setTimeout(refresh, 3000);
}
setTimeout(refresh, 3000);
