// Lists of several pages: they are turned, sorted and filtered, the address has the order and the
// page, and a table that is exported has all rows.
import { check } from '../stage.mjs';

/** Rows of a page of nodes, and of a page of a folder. */
const [NODES, OBJECTS] = [50, 100];

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  await nodes(stage, facts.nodes);
  await sorted(stage, facts.nodes);
  await filtered(stage, facts);
  await log(stage);
  await folder(stage, facts);
  await page.getByRole('button', { name: 'Sign out' }).click();
}

/** Waits until a table shows these rows, and returns the texts of their first links. */
async function shown(stage, from, to, table = 'Nodes') {
  const region = stage.page.getByRole('region', { name: `Table: ${table}` });
  await stage.page.getByText(`Rows ${from} to ${to}`, { exact: true }).waitFor();
  return region.locator('tbody tr a:first-of-type').allInnerTexts();
}

const next = (stage) => stage.page.getByRole('button', { name: 'Next' });
const previous = (stage) => stage.page.getByRole('button', { name: 'Previous' });
const place = (stage) => new URL(stage.page.url()).search;

async function nodes(stage, count) {
  const { page } = stage;
  await stage.visit('/nodes', 'Nodes');
  const first = await shown(stage, 1, NODES);
  check(await previous(stage).isDisabled(), 'nothing is before the first page');
  await next(stage).focus();
  await page.keyboard.press('Enter');
  const second = await shown(stage, NODES + 1, 2 * NODES);
  await stage.quiet();
  check(place(stage) === '?page=2', `the address has the page: ${place(stage)}`);
  check(second.every((name) => !first.includes(name)), 'the second page has other nodes');
  check(await next(stage).evaluate((button) => button === document.activeElement), 'the button has the focus still');
  await stage.checkAccess('the second page of a list');
  await page.reload();
  check(String(await shown(stage, NODES + 1, 2 * NODES)) === String(second), 'a page that is loaded again shows the same');
  await previous(stage).click();
  check(String(await shown(stage, 1, NODES)) === String(first), 'back at the first page');
  check(place(stage) === '', `the first page has no number: ${place(stage)}`);
  await page.goBack();
  await shown(stage, NODES + 1, 2 * NODES);
  await last(stage, count);
}

/** Turns to the end of the list, from where a reload and the button lead back. */
async function last(stage, count) {
  const { page } = stage;
  const begin = Math.floor((count - 1) / NODES) * NODES;
  for (let row = 2 * NODES; row <= begin; row += NODES) {
    await next(stage).click();
    await shown(stage, row + 1, Math.min(count, row + NODES));
  }
  check(await next(stage).isDisabled(), 'nothing is after the last page');
  check(await next(stage).evaluate((button) => button === document.activeElement), 'the end keeps the focus');
  await page.reload();
  await shown(stage, begin + 1, count);
  await previous(stage).click();
  await shown(stage, begin - NODES + 1, begin);
  // An address may name a page that the list does not have.
  await page.goto('/nodes?page=999');
  await shown(stage, begin + 1, count);
  await page.goto('/nodes?page=none&sort=none');
  await shown(stage, 1, NODES);
}

/** The server sorts by names, and the page by states. */
async function sorted(stage, count) {
  const { page } = stage;
  await stage.visit('/nodes', 'Nodes');
  const heading = (title) => page.getByRole('columnheader', { name: title, exact: true });
  for (const order of ['ascending', 'descending']) {
    await heading('Node').getByRole('button').click();
    await page.locator(`th[aria-sort=${order}]`).waitFor();
  }
  await page.getByRole('table').locator('tbody tr').first().filter({ hasText: 'web-1' }).waitFor();
  check(place(stage) === '?sort=-name', `the address has the order: ${place(stage)}`);
  await next(stage).click();
  const names = await shown(stage, NODES + 1, 2 * NODES);
  check(String(names) === String([...names].sort().reverse()), `the second page is sorted: ${names}`);
  await page.reload();
  check(String(await shown(stage, NODES + 1, 2 * NODES)) === String(names), 'a reload keeps order and page');
  await page.locator('th[aria-sort=descending]').waitFor();
  const rows = await exported(stage);
  check(rows.length === count && rows[0].startsWith('web-1,'), `all rows are exported in their order: ${rows.length}, ${rows[0]}`);
  await heading('State').getByRole('button').click();
  await page.waitForURL(/\?sort=state$/);
  await shown(stage, 1, NODES);
  await next(stage).click();
  const states = await shown(stage, NODES + 1, 2 * NODES);
  await page.reload();
  check(String(await shown(stage, NODES + 1, 2 * NODES)) === String(states), 'an order of the page survives a reload');
  check((await exported(stage)).length === count, 'all rows are exported in an order of the page');
}

async function exported(stage) {
  const csv = await stage.download(() => stage.page.getByRole('button', { name: 'Export CSV' }).click());
  return csv.toString().split('\r\n').slice(1, -1);
}

/** A condition shows another list from its beginning; a choice of nodes outlasts a page that is turned. */
async function filtered(stage, { odd }) {
  const { page } = stage;
  await stage.visit('/nodes?page=3&sort=name', 'Nodes');
  await page.getByLabel('Search').fill('odd');
  await page.waitForURL(/search=odd/);
  const first = await shown(stage, 1, NODES);
  check(!place(stage).includes('page='), `another list begins at its first page: ${place(stage)}`);
  await page.getByLabel(`Choose ${first[0]}`, { exact: true }).check();
  await next(stage).click();
  const second = await shown(stage, NODES + 1, 2 * NODES);
  check(second.every((name) => !first.includes(name)), 'the second page of the nodes that were found');
  await page.getByText('1 node chosen').waitFor();
  await page.reload();
  await shown(stage, NODES + 1, 2 * NODES);
  check((await exported(stage)).length === odd, 'all nodes that were found are exported');
  await previous(stage).click();
  await shown(stage, 1, NODES);
}

async function log(stage) {
  await stage.visit('/log', 'Log');
  const texts = () => stage.page.getByRole('table').locator('tbody tr').allInnerTexts();
  await shown(stage, 1, 100, 'Activity log');
  const first = await texts();
  await next(stage).click();
  await shown(stage, 101, 200, 'Activity log');
  check(String(await texts()) !== String(first), 'the second page of the log has other entries');
}

async function folder(stage, { filespace, inside, files }) {
  const { page } = stage;
  const path = `/nodes/web-1/restore?${new URLSearchParams({ filespace, path: `${inside}/many` })}`;
  await stage.visit(path, 'web-1');
  const choose = (number) => page.getByLabel(`Choose ${inside}/many/file-${String(number).padStart(4, '0')}`, { exact: true });
  await choose(1).check();
  for (let row = OBJECTS; row < files; row += OBJECTS) {
    await next(stage).click();
    await shown(stage, row + 1, row + OBJECTS, 'Objects of the folder');
    await stage.quiet();
    await choose(row + 1).waitFor();
  }
  await choose(files).check();
  await page.getByText('2 objects chosen').waitFor();
  await page.reload();
  await choose(files).waitFor();
  await previous(stage).click();
  await choose(files - OBJECTS).waitFor();
  check((await exported(stage)).length === files, 'all files of the folder are exported');
  await page.getByRole('navigation', { name: 'Folder' }).getByRole('link').last().click();
  await shown(stage, 1, OBJECTS, 'Objects of the folder');
}
