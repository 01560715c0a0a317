// A person signs in at a provider of OpenID Connect, with a second factor of the service, and out
// again.
import { check, code } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  // The page asks whether it is signed in, which it is not.
  stage.expected.add(401);
  // The provider's own pages name a style of another place, and have no icon.
  await page.route('https://fonts.googleapis.com/**', (route) => route.fulfill({ contentType: 'text/css', body: '' }));
  const toProvider = page.getByRole('button', { name: 'Sign in at The university' });
  const screens = page.getByRole('navigation', { name: 'Screens' });
  const atProvider = async (login) => {
    await page.locator('input[name=login]').fill(login);
    await page.locator('input[name=password]').fill('any');
    await page.locator('[type=submit]').click();
    await page.getByRole('button', { name: 'Continue' }).click();
  };
  const hearOurs = () => (stage.complaints = stage.complaints.filter((text) => !text.includes(facts.issuer)));

  await page.goto('/nodes?search=web');
  await toProvider.waitFor();
  await stage.inspect('sign-in-with-provider');
  await toProvider.click();
  await atProvider('anna');
  await page.getByRole('heading', { level: 1, name: 'Nodes' }).waitFor();
  check(page.url() === `${facts.url}/nodes?search=web`, `the person is back where it was: ${page.url()}`);
  hearOurs();

  await stage.visit('/account', 'Your account');
  await page.getByRole('button', { name: 'Set a second factor up' }).click();
  const secret = await page.locator('[data-secret=Secret]').innerText();
  await stage.takeSecondFactor(secret);
  // The provider still knows the person, and sends the browser back at once.
  await toProvider.click();
  await page.getByLabel('Code').waitFor();
  check(new URL(page.url()).search === '', 'the address does not keep the code of the provider');
  await stage.checkAccess('the question for the code after the provider');
  await stage.giveCode(secret);

  await page.getByRole('button', { name: 'Sign out' }).click();
  const out = await page.getByRole('link', { name: 'Sign out there, too' }).getAttribute('href');
  check(out.startsWith(`${facts.issuer}/session/end?`), out);
  await stage.checkAccess('the screen after a sign-in at the provider');

  await page.goto('/sign-in/return?error=access_denied&error_description=owned');
  await page.getByRole('alert').filter({ hasText: 'You did not agree' }).waitFor();
  check(!(await page.locator('body').innerText()).includes('owned'), 'a text of the address is not shown');
  await page.goto('/sign-in/return?code=a&state=b');
  await page.getByRole('alert').filter({ hasText: 'begin again' }).waitFor();
  check(new URL(page.url()).pathname === '/', page.url());
  await stage.signIn('anna', facts.password, code(secret, 1));
  await screens.waitFor();
  await page.goto('/sign-in/return?code=a&state=b');
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  hearOurs();
}
