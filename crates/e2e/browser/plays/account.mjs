// A person makes an own key, sets a second factor up, signs in with it, sees the sign-ins, and removes
// it. A person without a role makes a key, too.
import { modulesOf, read } from '../qr.mjs';
import { check, code } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  await stage.visit('/nodes', 'Nodes');
  await page.getByText('No node is registered yet. Register one').waitFor();
  await stage.visit('/account', 'Your account');
  await page.getByText('This one', { exact: true }).waitFor();
  await key(stage, ['full', 'readonly', 'enroller', 'impersonator']);
  await stage.inspect('account');
  await page.getByRole('button', { name: 'Set a second factor up' }).click();
  const secret = await page.locator('[data-secret=Secret]').innerText();
  const picture = page.getByRole('img', { name: 'Picture of the secret for your app' });
  const address = await page.getByRole('link', { name: 'Open it in an app of this device' }).getAttribute('href');
  const shown = read(modulesOf(await picture.locator('path').getAttribute('d')));
  check(shown === address && address.includes(secret), `the picture says ${shown}, not ${address}`);
  await stage.inspect('second-factor', page.getByRole('region', { name: 'Second factor' }));
  await stage.takeSecondFactor(secret);
  await page.getByLabel('Login').waitFor();
  await page.getByLabel('Login').fill(facts.login);
  await page.getByLabel('Password').fill(facts.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByLabel('Code').waitFor();
  await stage.checkAccess('the question for the code');
  await stage.giveCode(secret);
  await page.getByRole('button', { name: 'Remove it' }).click();
  await page.getByLabel('Code').fill(code(secret, 1));
  await page.getByRole('textbox', { name: 'Password', exact: true }).fill(facts.password);
  await page.getByRole('button', { name: 'Remove the second factor' }).click();
  await page.getByLabel('Login').waitFor();
  await stage.signIn(facts.login, facts.password);
  check(await page.getByText('Set a second factor up').isVisible(), 'the account has only a password again');
  await page.getByRole('button', { name: 'Dark' }).click();
  await page.reload();
  check((await page.locator('html').getAttribute('data-theme')) === 'dark', 'the choice of colours lasts');
  await stage.enter();
  await stage.signIn(facts.owner, facts.password);
  await stage.visit('/account', 'Your account');
  await key(stage, ['full', 'readonly', 'enroller']);
}

/** Makes an own key of one of these kinds, and revokes it. */
async function key(stage, kinds) {
  const { page } = stage;
  const dialog = page.getByRole('dialog');
  await page.getByRole('button', { name: 'Make a key' }).click();
  const offered = await dialog.getByLabel('Kind').locator('option').allInnerTexts();
  check(String(offered) === String(kinds), `the kinds that the person may make: ${offered}`);
  check(!(await dialog.getByLabel('Person').count()), 'the key is of nobody else');
  await dialog.getByLabel('Description').fill('for a script');
  await dialog.getByRole('button', { name: 'Make the key' }).click();
  const made = await dialog.locator('[data-secret=Key]').innerText();
  const answer = await stage.context.request.get('/v1/account', { headers: { Authorization: `Token ${made}` } });
  check(answer.ok(), `the key works: ${answer.status()}`);
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByText('for a script').waitFor();
  const id = made.split(':')[0];
  await page.getByRole('button', { name: `Revoke ${id}` }).click();
  await stage.agree('Revoke');
  await stage.message(`${id} is revoked.`);
}
