// Keeps the page fresh. Everything works without it, by forms and whole pages.

const PERIOD = 2_000;
const freshness = document.getElementById('freshness');
const lost = document.getElementById('lost');

// A section that is replaced between press and release of a button would swallow the click, so nothing is replaced
// then; and nothing once a form is on its way.
let held = false;
let leaving = false;
for (const type of ['pointerdown', 'keydown']) addEventListener(type, () => (held = true), true);
for (const type of ['pointerup', 'pointercancel', 'keyup', 'blur']) {
  // After the click, which follows the release.
  addEventListener(type, () => setTimeout(() => (held = false)), true);
}
addEventListener('submit', () => (leaving = true));

// What was said once is not to be said again when the page is loaded anew.
if (location.search) history.replaceState(null, '', location.pathname + location.hash);

const shown = new Map();
for (const section of document.querySelectorAll('[data-live]')) shown.set(section.id, section.outerHTML);

const selects = (section) => {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(section, true);
};

function replace(section, fresh) {
  const open = [...section.querySelectorAll('details[open]')].map(({ id }) => id);
  const focused = section.contains(document.activeElement) ? document.activeElement.id : '';
  shown.set(section.id, fresh.outerHTML);
  section.replaceWith(fresh);
  for (const id of open) document.getElementById(id)?.setAttribute('open', '');
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

async function refresh() {
  const response = await fetch('/', { headers: { Accept: 'text/html' } });
  if (!response.ok) throw new Error(response.statusText);
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  if (held || leaving) return;
  document.title = page.title;
  for (const fresh of page.querySelectorAll('[data-live]')) {
    const section = document.getElementById(fresh.id);
    if (section && shown.get(fresh.id) !== fresh.outerHTML && !selects(section)) replace(section, fresh);
  }
}

async function live() {
  if (!document.hidden && !held && !leaving) {
    try {
      await refresh();
      freshness.textContent = `Updated ${new Date().toLocaleTimeString()}`;
      lost.textContent = '';
    } catch {
      lost.textContent = 'The shop does not answer. What you see may be old; it is asked again every two seconds.';
    }
  }
  setTimeout(live, PERIOD);
}
setTimeout(live, PERIOD);
freshness.textContent = `Updated ${new Date().toLocaleTimeString()}`;
