// A person who has only a keyboard: a dialog holds the focus, Escape closes it, and then the button
// that has opened it has the focus again.
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
