// A person who has only a keyboard: a dialog holds the focus, Escape closes it, and then the button
// that has opened it has the focus again. A double click sends a form once.
import { check } from '../stage.mjs';

/** More presses of Tab than a form has fields. */
const TABS = 30;

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  await stage.visit('/nodes', 'Nodes');
  await dialog(stage, page.getByRole('button', { name: 'Register a node' }));
  await stage.visit('/nodes/web-1', 'web-1');
  for (const name of ['Run now', 'Lock', 'Edit', 'Remove']) {
    await dialog(stage, page.getByRole('button', { name, exact: true }).first());
  }
  await stage.visit('/schedules', 'Schedules');
  await dialog(stage, page.getByRole('button', { name: 'Make a schedule' }));
  await agreed(stage);
  await twice(stage);
}

async function dialog(stage, opener) {
  const { page } = stage;
  const name = await opener.innerText();
  await opener.focus();
  await page.keyboard.press('Enter');
  const open = page.getByRole('dialog');
  await open.waitFor();
  for (let press = 0; press < TABS; press++) {
    await page.keyboard.press('Tab');
    const isInside = await page.evaluate(() => document.activeElement === document.body || !!document.activeElement.closest('dialog'));
    check(isInside, `${name}: the focus stays in the dialog`);
  }
  await page.keyboard.press('Escape');
  await open.waitFor({ state: 'detached' });
  check(await opener.evaluate((button) => button === document.activeElement), `${name}: the button has the focus again`);
}

/** After a change, too, a person goes on where the change was begun. */
async function agreed(stage) {
  const { page } = stage;
  await stage.visit('/nodes/web-1', 'web-1');
  await page.getByRole('button', { name: 'Lock', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Lock', exact: true }).focus();
  await page.keyboard.press('Enter');
  const unlock = page.getByRole('button', { name: 'Unlock', exact: true });
  await unlock.waitFor();
  check(await unlock.evaluate((button) => button === document.activeElement), 'the button has the focus after the change');
}

/** A double click orders work once: the second click comes while the first order is under way. */
async function twice(stage) {
  const { page } = stage;
  const runs = /\/v1\/runs$/;
  const problem = { type: '/problems/conflict', title: 'Conflict', status: 409, detail: 'not now', code: 'conflict' };
  let orders = 0;
  stage.expected.add(409);
  await page.route(runs, async (route) => {
    orders += 1;
    await page.waitForTimeout(300);
    await route.fulfill({ status: 409, contentType: 'application/problem+json', json: problem });
  });
  await page.getByRole('button', { name: 'Run now' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Run now' }).dblclick();
  await dialog.getByRole('alert').filter({ hasText: 'not now' }).waitFor();
  await stage.quiet();
  check(orders === 1, `the work is ordered once, not ${orders} times`);
  await page.unroute(runs);
}
