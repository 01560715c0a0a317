// A removal waits until a second person approves it. Request 1 was asked by the first person in the
// place of the second one, so that neither of them decides about it. The second person refuses
// request 2, so that the first one asks again.
import { check } from '../stage.mjs';

export default async function play(stage, facts) {
  await stage.signIn(facts.login, facts.password);
  stage.expected.add(404).add(400);
  await ask(stage, 2);
  for (const number of [1, 2]) {
    await stage.page.getByRole('button', { name: `Withdraw request ${number}` }).waitFor();
    check(!(await stage.page.getByRole('button', { name: `Approve request ${number}` }).isVisible()), 'nobody approves own requests');
  }
  await counted(stage, 0);
  await refuse(stage, facts);
  await enter(stage, facts.login, facts);
  await stage.page.getByText('Reason: in use until May').waitFor();
  await ask(stage, 3);
  await enter(stage, facts.second, facts);
  await counted(stage, 1);
  await stage.inspect('approvals');
  await stage.seesOnPhone(stage.page.getByRole('button', { name: 'Refuse request 3' }));
  await failed(stage);
  await approve(stage, facts);
}

/** Asks for the removal of a node, and looks at the requests. */
async function ask(stage, number) {
  const { page } = stage;
  await stage.visit('/nodes/web-2', 'web-2');
  await page.getByRole('button', { name: 'Remove', exact: true }).click();
  const dialog = page.getByRole('dialog');
  check(await dialog.getByRole('button', { name: 'Remove with all data' }).isDisabled(), 'the name has to be typed');
  await dialog.getByLabel('Type web-2 to go on').fill('web-2');
  await stage.agree('Remove with all data');
  await stage.message(`the request waits as number ${number}`);
  await stage.visit('/approvals', 'Approvals');
}

/** Signs in as somebody who looks at the requests. */
async function enter(stage, login, facts) {
  await stage.enter();
  await stage.signIn(login, facts.password);
  await stage.visit('/approvals', 'Approvals');
}

/** The second person takes back what was asked in the own name, and refuses the other request with a reason. */
async function refuse(stage, facts) {
  await enter(stage, facts.second, facts);
  const { page } = stage;
  await page.getByRole('button', { name: 'Approve request 2' }).waitFor();
  check(!(await page.getByRole('button', { name: 'Approve request 1' }).isVisible()), 'a person decides about no request in the own name');
  await page.getByRole('button', { name: 'Withdraw request 1' }).click();
  check((await stage.agree('Withdraw')).includes('web-1'), 'the question names the node');
  await stage.message('Request 1 is withdrawn.');
  await page.getByRole('button', { name: 'Refuse request 2' }).click();
  await page.getByRole('dialog').getByLabel('Reason').fill('in use until May');
  await stage.checkAccess('the form of a decision');
  check((await stage.agree('Refuse')).includes('web-2'), 'the question names the node');
  await stage.message('Request 2 is refused.');
}

/** The list of screens says how many requests wait for the person. */
async function counted(stage, number) {
  const name = number ? `Approvals ${number} for your decision` : 'Approvals';
  await stage.page.getByRole('navigation', { name: 'Screens' }).getByRole('link', { name, exact: true }).waitFor();
}

/** An approved request that fails is not said to be carried out. */
async function failed(stage) {
  const { page } = stage;
  const decision = /\/v1\/approvals\/3\/decision$/;
  const { items } = await (await stage.context.request.get('/v1/approvals')).json();
  const json = { ...items[0], state: 'failed', reason: "there is no node 'web-2'" };
  await page.route(decision, (route) => route.fulfill({ json }));
  await page.getByRole('button', { name: 'Approve request 3' }).click();
  await stage.agree('Approve');
  await stage.message("Request 3 is approved, but could not be carried out: there is no node 'web-2'");
  await page.unroute(decision);
}

async function approve(stage, facts) {
  const { page } = stage;
  await page.getByRole('button', { name: 'Approve request 3' }).click();
  check((await stage.agree('Approve')).includes('web-2'), 'the question names the node');
  await stage.message('Request 3 is approved and carried out.');
  await counted(stage, 0);
  await stage.visit('/nodes', 'Nodes');
  await page.getByRole('link', { name: 'web-1' }).waitFor();
  check(!(await page.getByRole('link', { name: 'web-2' }).isVisible()), 'the node is gone');
  await stage.visit('/log?text=approv', 'Log');
  const text = await page.getByRole('table').innerText();
  check(text.includes(facts.login) && text.includes(facts.second), `both names are in the log: ${text}`);
}
