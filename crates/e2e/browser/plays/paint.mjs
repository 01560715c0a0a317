// Registers many nodes, and measures how soon screens show something, and what was asked for.
// Each load begins in a new browser without anything kept from before.
import { check } from '../stage.mjs';

/** Requests that are under way at once. */
const AT_ONCE = 12;

const SCREENS = [
  { name: 'Overview', path: '/', content: 'dl.figures dd' },
  { name: 'Nodes', path: '/nodes', content: 'tbody a' },
];

export default async function play(stage, facts) {
  await register(stage, facts);
  const loads = Object.fromEntries(SCREENS.map(({ name }) => [name, []]));
  for (let round = 0; round < facts.rounds; round++) {
    for (const screen of SCREENS) loads[screen.name].push(await load(stage, facts, screen));
  }
  return loads;
}

async function register(stage, facts) {
  const headers = { Authorization: `Token ${facts.key}` };
  let next = 0;
  const work = async () => {
    while (next < facts.nodes) {
      const name = `node-${String(next++).padStart(5, '0')}`;
      const data = { name, hostname: `${name}.example.org`, description: `machine ${name}` };
      for (;;) {
        const answer = await stage.context.request.post('/v1/nodes', { headers, data });
        if (answer.ok()) break;
        check(answer.status() === 429, `${name}: ${answer.status()} ${await answer.text()}`);
        await new Promise((resolve) => setTimeout(resolve, 250));
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

async function load(stage, facts, { path, content }) {
  await stage.enter();
  await stage.signIn(facts.login, facts.password);
  const { cookies } = await stage.context.storageState();
  await stage.enter();
  await stage.context.addCookies(cookies);
  const { page } = stage;
  await page.addInitScript((selector) => {
    new MutationObserver(() => {
      if (!window.shown && document.querySelector(selector)) window.shown = performance.now();
    }).observe(document, { childList: true, subtree: true });
  }, content);
  let bytes = 0;
  page.on('response', async (response) => {
    const sizes = await response.request().sizes().catch(() => undefined);
    bytes += sizes ? sizes.responseBodySize + sizes.responseHeadersSize : 0;
  });
  await page.goto(path);
  await page.waitForFunction(() => window.shown);
  await stage.quiet();
  const [paint, shown] = await page.evaluate(() => [
    performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0, window.shown,
  ]);
  return { paint, shown, bytes };
}
