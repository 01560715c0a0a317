// Risks and growth on the overview; alerts that are acknowledged one by one and together; a test of
// the notices, which one of two recipients does not get.
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  await stage.signIn(facts.login, facts.password);
  await overview(stage, facts);
  await acknowledge(stage);
  await test(stage);
  await opened(stage);
}

/** An alert that is opened while somebody looks appears by itself. */
async function opened(stage) {
  const { page } = stage;
  const alerts = /\/v1\/alerts\?/;
  let items = [];
  await page.route(alerts, (route) => route.fulfill({ json: { items } }));
  await stage.visit('/alerts', 'Alerts');
  await page.getByText('Nothing needs a person.').waitFor();
  items = [{ number: 1, kind: 'pool-fills', object: 'PRIMARY', text: 'pool PRIMARY fills up', is_urgent: false, opened: new Date().toISOString() }];
  await page.getByRole('table', { name: 'Alerts' }).getByText('pool PRIMARY fills up').waitFor();
  await page.unroute(alerts);
}

async function overview(stage, facts) {
  const { page } = stage;
  await stage.visit('/', 'Overview');
  const risks = page.getByRole('region', { name: 'At risk' });
  for (const kind of facts.kinds) await risks.getByText(kind, { exact: true }).first().waitFor();
  check((await risks.getByRole('listitem').first().innerText()).startsWith('Mass deletion'), 'what is urgent comes first');
  check((await page.locator('dl.figures dd').first().innerText()).startsWith('3'), 'each node is at risk once');
  await page.getByRole('button', { name: '30 days' }).click();
  const growth = page.getByRole('img', { name: /^Space that is taken, by day/ });
  await growth.focus();
  // The newest day is the first one that the keys show.
  await page.keyboard.press('ArrowLeft');
  await page.getByRole('status').filter({ hasText: 'PRIMARY' }).filter({ hasText: /[kM]?B$/ }).waitFor();
  await page.getByRole('button', { name: 'Domains' }).click();
  await page.getByText('STANDARD', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Pools', exact: true }).click();
  await stage.quiet();
  await stage.inspect('overview');
  await stage.inspect('growth', page.getByRole('region', { name: 'Growth' }));
}

async function acknowledge(stage) {
  const { page } = stage;
  const table = page.getByRole('table', { name: 'Alerts' });
  const row = (text) => table.getByRole('row').filter({ hasText: text });
  const dialog = page.getByRole('dialog');
  await stage.visit('/alerts', 'Alerts');
  await row('Mass deletion').getByRole('link', { name: 'web-1' }).waitFor();
  await row('certificate of node web-1').getByRole('button', { name: /^Acknowledge alert/ }).click();
  await dialog.getByLabel('Note').fill('the machine is replaced tomorrow');
  await stage.checkAccess('the form of an acknowledgement');
  await dialog.getByRole('button', { name: 'Acknowledge' }).click();
  await stage.message('1 alert acknowledged.');
  await row('certificate of node web-1').getByText('the machine is replaced tomorrow').waitFor();
  await stage.inspect('alerts');
  for (const name of ['web-2', 'web-3']) await row(`certificate of node ${name}`).getByRole('checkbox').check();
  await page.getByRole('group', { name: 'Actions for the chosen alerts' }).getByRole('button', { name: 'Acknowledge them' }).click();
  await dialog.getByRole('button', { name: 'Acknowledge' }).click();
  await stage.message('2 alerts acknowledged.');
  await row('Mass deletion').getByRole('button', { name: /^Acknowledge alert/ }).click();
  await dialog.getByRole('button', { name: 'Acknowledge' }).click();
  await stage.message('1 alert acknowledged.');
  // The next look of the server ends the alert.
  for (let looks = 0; looks < 60; looks++) {
    await stage.visit('/alerts?state=over', 'Alerts');
    if (await row('Mass deletion').isVisible()) return;
    await page.waitForTimeout(500);
  }
  throw new Error('the alert about deleted objects is not over');
}

async function test(stage) {
  const { page } = stage;
  await page.getByRole('button', { name: 'Test the notices' }).click();
  check((await stage.agree('Send the test')).includes('by webhook'), 'the question says what it sends');
  await stage.message(/pager/);
}
