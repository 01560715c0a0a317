// A node: its calendar, charts, events, settings and baseline; a backup that runs now and is
// watched; locking, a new token, and editing.
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  await run(stage, facts);
  await stage.visit('/nodes/web-1', 'web-1');
  await page.getByRole('heading', { name: 'Backups by day' }).waitFor();
  await page.getByRole('img', { name: /Objects that backups examined/ }).press('ArrowLeft');
  await page.getByText(/Examined \d+, Backed up \d+/).waitFor();
  await page.getByRole('img', { name: /^Bytes that backups sent, by day/ }).waitFor();
  const about = await page.getByRole('region', { name: 'About the node' }).innerText();
  for (const fact of ['Last contact', 'from 127.0.0.1', 'Servers', 'Compression', 'Deduplication']) check(about.includes(fact), `the node has: ${fact}: ${about}`);
  await stage.inspect('node');
  await stage.onPhone(async () => {
    await stage.visit('/nodes/web-1', 'web-1');
    const calendar = page.getByRole('region', { name: /^Backups of web-1 by day/ });
    await calendar.getByRole('link').last().waitFor();
    const hidden = await calendar.evaluate((frame) => frame.scrollWidth - frame.clientWidth - frame.scrollLeft);
    check(hidden <= 1, `a phone begins with the last days: ${hidden} pixels are hidden`);
  });
  await stage.visit('/nodes/web-1', 'web-1');
  await parts(stage);
  await edit(stage);
  await lock(stage);
  await rekey(stage);
}

/** Starts a backup, and follows it to its end. */
async function run(stage, facts) {
  const { page } = stage;
  await stage.visit('/nodes/web-1', 'web-1');
  await page.getByRole('button', { name: 'Run now' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('An incremental backup begins').waitFor();
  await dialog.getByLabel('Files and folders').fill(facts.tree);
  await stage.checkAccess('the form of a run');
  await dialog.getByRole('button', { name: 'Run now' }).click();
  await page.waitForURL(/\/events\/\d+/);
  await page.getByText('Completed', { exact: true }).waitFor();
  await page.getByRole('heading', { name: 'Report' }).waitFor();
  await stage.quiet();
  await stage.inspect('event');
}

async function parts(stage) {
  const { page } = stage;
  await page.getByRole('link', { name: 'Events', exact: true }).click();
  await page.getByRole('heading', { name: 'Finished backups' }).waitFor();
  await page.getByRole('table', { name: 'Backups of web-1' }).getByText('Complete').first().waitFor();
  await stage.quiet();
  await stage.inspect('node-events');
  await page.getByRole('link', { name: 'Settings', exact: true }).click();
  await page.getByText('compression', { exact: true }).first().waitFor();
  await stage.inspect('node-settings');
  await page.getByRole('link', { name: 'Baseline', exact: true }).click();
  await page.getByRole('heading', { name: 'Baseline' }).waitFor();
  await stage.quiet();
  await stage.inspect('node-baseline');
}

async function edit(stage) {
  const { page } = stage;
  await page.getByRole('button', { name: 'Edit' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Host name').fill('web-1.example.org');
  await dialog.getByLabel('Labels').fill('web berlin');
  await dialog.getByText('hostname: web-1.example.org').waitFor();
  await stage.checkAccess('the form of a node');
  await dialog.getByRole('button', { name: 'Save the changes' }).click();
  await stage.message('web-1 is changed.');
  await page.getByRole('link', { name: 'Summary', exact: true }).click();
  await page.getByText('berlin, web').waitFor();
}

async function lock(stage) {
  const { page } = stage;
  await page.getByRole('button', { name: 'Lock', exact: true }).click();
  check((await stage.agree('Lock')).includes('refuses sessions of web-1'), 'the question says what a lock does');
  await page.getByText('Locked by the service').waitFor();
  await page.getByRole('button', { name: 'Unlock', exact: true }).click();
  await stage.agree('Unlock');
  await page.getByText('Locked by the service').waitFor({ state: 'detached' });
}

async function rekey(stage) {
  const { page } = stage;
  await page.getByRole('button', { name: 'New token' }).click();
  await stage.agree('Make a new token');
  const command = await page.getByRole('dialog').locator('[data-secret=Command]').innerText();
  check(/^holdfast enroll \S+ --token \S+$/.test(command), command);
  await page.getByRole('button', { name: 'Done' }).click();
}

