// A removal waits until a second person approves it. Request 1 was asked by the first person in the
// place of the second one, so that neither of them decides about it.
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  const { page } = stage;
  await stage.signIn(facts.login, facts.password);
  stage.expected.add(404).add(400);
  await stage.visit('/nodes/web-2', 'web-2');
  await page.getByRole('button', { name: 'Remove', exact: true }).click();
  const dialog = page.getByRole('dialog');
  check(await dialog.getByRole('button', { name: 'Remove with all data' }).isDisabled(), 'the name has to be typed');
  await dialog.getByLabel('Type web-2 to go on').fill('web-2');
  await stage.agree('Remove with all data');
  await stage.message('the request waits as number 2');
  await stage.visit('/approvals', 'Approvals');
  for (const number of [1, 2]) {
    await page.getByRole('button', { name: `Withdraw request ${number}` }).waitFor();
    check(!(await page.getByRole('button', { name: `Approve request ${number}` }).isVisible()), 'nobody approves own requests');
  }
  await stage.enter();
  await second(stage, facts);
}

async function second(stage, facts) {
  await stage.signIn(facts.second, facts.password);
  const { page } = stage;
  await stage.visit('/approvals', 'Approvals');
  await page.getByRole('button', { name: 'Approve request 2' }).waitFor();
  check(!(await page.getByRole('button', { name: 'Approve request 1' }).isVisible()), 'a person decides about no request in the own name');
  await page.getByRole('button', { name: 'Withdraw request 1' }).click();
  check((await stage.agree('Withdraw')).includes('web-1'), 'the question names the node');
  await stage.message('Request 1 is withdrawn.');
  await stage.inspect('approvals');
  await page.getByRole('button', { name: 'Approve request 2' }).click();
  check((await stage.agree('Approve')).includes('web-2'), 'the question names the node');
  await stage.message('Request 2 is approved and carried out.');
  await stage.visit('/nodes', 'Nodes');
  await page.getByRole('link', { name: 'web-1' }).waitFor();
  check(!(await page.getByRole('link', { name: 'web-2' }).isVisible()), 'the node is gone');
  await stage.visit('/log?text=approv', 'Log');
  const text = await page.getByRole('table').innerText();
  check(text.includes(facts.login) && text.includes(facts.second), `both names are in the log: ${text}`);
}
