// Addresses with wrong values: a message says what is wrong, or the default is shown, and the browser
// has nothing to complain about. What is absent is not offered to be changed, and what may not be
// seen is not awaited.
import { check } from '../stage.mjs';

/** Addresses, the title of the screen, and what is said there. */
const ADDRESSES = [
  ['/nodes/web-1/restore?at=garbage', 'web-1', 'garbage is no time'],
  ['/nodes/web-1/restore?from=garbage&to=garbage', 'web-1', 'garbage is no time'],
  ['/nodes/web-1/restore?at=2026-99-99T99:99:99Z', 'web-1', '2026-99-99T99:99:99Z is no time'],
  ['/nodes/web-1/restore?days=garbage', 'web-1', 'Shown as the last backups saw it.'],
  ['/nodes/web-1/events?day=garbage', 'web-1', 'garbage is no day'],
  ['/nodes/web-1/baseline?baseline=garbage', 'web-1', 'Nothing was measured yet. holdfast baseline at the node'],
  ['/nodes/web-1?days=garbage', 'web-1', 'Over time'],
  ['/nodes/web-1?days=1000000000', 'web-1', 'Over time'],
  ['/log?from=garbage', 'Log', 'garbage is no day'],
  ['/log?from=2026-11-26&to=2026-02-30', 'Log', '2026-02-30 is no day'],
  ['/log?from=NaN-NaN-NaN', 'Log', 'NaN-NaN-NaN is no day'],
  ['/reports?month=garbage', 'Reports', 'garbage is no month'],
  ['/?days=garbage&night=garbage', 'Overview', 'The last 24 hours.'],
  ['/?days=1000000000&night=99999999-01-01', 'Overview', 'The last 24 hours.'],
  ['/alerts?state=garbage', 'Alerts', 'What is wrong'],
  ['/nodes?sort=garbage&page=-1', 'Nodes', 'Rows 1 to'],
  ['/people?view=garbage', 'People, tenants and keys', 'Rows 1 to'],
  ['/nodes/%E0%A4%A', 'Nothing here', 'This address leads to no screen.'],
  ['/schedules/%ff', 'Nothing here', 'This address leads to no screen.'],
  ['/events/garbage', 'Nothing here', 'This address leads to no screen.'],
];

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  for (const [path, title, text] of ADDRESSES) {
    await stage.visit(path, title);
    await page.getByText(text).first().waitFor();
    check(!stage.complaints.length, `${path}: ${stage.complaints.join('\n')}`);
  }
  await emptied(stage);
  await unconnected(stage);
  await absent(stage);
  await forbidden(stage, facts);
}

/** A field of a time that somebody empties means the present. */
async function emptied(stage) {
  const { page } = stage;
  await stage.visit('/nodes/web-1/restore', 'web-1');
  await page.getByRole('button', { name: 'Backup before' }).click();
  await page.waitForURL(/at=/);
  await page.getByLabel('As it was at').fill('');
  await page.getByText('Shown as the last backups saw it.').waitFor();
}

/** A restore at a node without an agent says that it has to wait. */
async function unconnected(stage) {
  const { page } = stage;
  await stage.visit('/nodes/web-1/restore', 'web-1');
  await page.getByRole('table', { name: 'Objects of the folder' }).getByRole('checkbox', { name: /^Choose [^ ]+$/ }).first().check();
  await page.getByRole('button', { name: 'Restore at the node' }).click();
  await page.getByRole('dialog').getByText('web-1 is not connected now.').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
}

/** A node that is absent has no buttons, also after one that is there. */
async function absent(stage) {
  const { page } = stage;
  stage.expected.add(404);
  await stage.visit('/nodes/web-1', 'web-1');
  await page.getByRole('button', { name: 'Run now' }).waitFor();
  await page.evaluate(() => {
    const link = document.querySelector('nav[aria-label=Place] a');
    link.href = '/nodes/nope';
    link.click();
  });
  await page.getByRole('heading', { level: 1, name: 'nope' }).waitFor();
  await page.getByRole('alert').filter({ hasText: 'nope' }).waitFor();
  for (const name of ['Run now', 'Lock', 'New token', 'Archive for a machine', 'Edit', 'Remove']) {
    check(!(await page.getByRole('button', { name, exact: true }).count()), `${name} is not offered for a node that is absent`);
  }
  check(!(await page.getByText('Last good backup').count()), 'nothing of the other node is shown');
}

async function forbidden(stage, facts) {
  await stage.enter();
  stage.expected.add(403);
  await stage.signIn(facts.tenant, facts.password);
  await stage.visit('/pools', 'Pools and volumes');
  await stage.page.getByRole('alert').first().waitFor();
  check(!(await stage.page.getByText('Loading', { exact: true }).count()), 'nothing is awaited that was refused');
}
