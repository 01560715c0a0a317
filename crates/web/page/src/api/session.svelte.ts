/** Who uses the page: the sign-in, and what the person may do. */
import { RETURN, router } from '../shell/router.svelte';
import { Problem, get, onSignedOut, post, setGuard, type Documents } from './client';

type Account = Documents['AccountDocument'];

/** Keys of the place to which the person returns from the provider, and of the mark that the provider knows the person. */
const PLACE = 'holdfast-place';
const PROVIDER = 'holdfast-provider';

class Session {
  status = $state<'unknown' | 'out' | 'in'>('unknown');
  account = $state<Account | undefined>();
  /** True if the person owns nodes. This is looked up only for persons whose roles do not act on nodes. */
  #ownsNodes = $state(false);

  constructor() {
    onSignedOut(() => this.#leave());
  }

  /** Finds the sign-in of a page that was loaded again. */
  async resume(): Promise<void> {
    try {
      this.#enter(await get('/v1/sign-in'));
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 0) throw error;
      this.#leave();
    }
  }

  async signIn(login: string, password: string, code: string | undefined): Promise<void> {
    this.#enter(await post('/v1/sign-in', { body: { login, password, code } }));
    sessionStorage.removeItem(PROVIDER);
  }

  /** Leaves the page for the provider of sign-ins, which sends the browser back. */
  async leaveForProvider(): Promise<void> {
    const { url } = await post('/v1/sign-in/oidc');
    sessionStorage.setItem(PLACE, location.pathname + location.search);
    location.assign(url);
  }

  /** Completes a sign-in at the provider. Returns false if the code of the second factor is missing. */
  async comeBack(code: string, state: string): Promise<boolean> {
    const { sign_in: signIn } = await post('/v1/sign-in/oidc/completion', { body: { code, state } });
    if (signIn) this.#enterFromProvider(signIn);
    return signIn !== undefined;
  }

  /** Gives the code of the second factor after a sign-in at the provider. */
  async giveCode(code: string): Promise<void> {
    this.#enterFromProvider(await post('/v1/sign-in/oidc/second-factor', { body: { code } }));
  }

  /** True if the person of the last sign-in may still be signed in at the provider. */
  get isAtProvider(): boolean {
    return sessionStorage.getItem(PROVIDER) !== null;
  }

  async signOut(): Promise<void> {
    await post('/v1/sign-out');
    this.#leave();
  }

  /** Reads the account again, after the person has changed it. */
  async refresh(): Promise<void> {
    this.account = await get('/v1/account');
  }

  /** True if the person has a role everywhere, as those who run the service have. */
  get isStaff(): boolean {
    return this.account?.roles.some((held) => !held.domain) ?? false;
  }

  /** True if the person has one of these roles, everywhere or in a domain. */
  has(...roles: Documents['Role'][]): boolean {
    return this.account?.roles.some((held) => roles.includes(held.role)) ?? false;
  }

  /** True if one of these roles covers the domain: held everywhere, or in the domain. Without a domain, everywhere only. */
  covers(domain: string | undefined, ...roles: Documents['Role'][]): boolean {
    return this.account?.roles.some((held) => roles.includes(held.role) && (!held.domain || held.domain === domain)) ?? false;
  }

  /** True if the person may change pools, volumes and libraries. */
  get changesStorage(): boolean {
    return this.covers(undefined, 'system', 'storage');
  }

  /** True if there are nodes on which the person may act: to run work, to end it, to change them. */
  get actsOnNodes(): boolean {
    return this.#ownsNodes || this.has('system', 'operator', 'tenant', 'owner');
  }

  /** True if the person may pause and cancel the work of an event. */
  mayCancel(event: Documents['EventDocument']): boolean {
    return event.node ? this.actsOnNodes : this.startsTasks;
  }

  /** True if the person may start tasks of the server. */
  get startsTasks(): boolean {
    return this.covers(undefined, 'system', 'storage', 'operator');
  }

  /** True if the person may see other people: see the table of roles. */
  get seesPeople(): boolean {
    return this.has('system', 'auditor', 'tenant');
  }

  #enterFromProvider(signIn: Documents['SignInDocument']): void {
    sessionStorage.setItem(PROVIDER, 'yes');
    const place = sessionStorage.getItem(PLACE) ?? '/';
    sessionStorage.removeItem(PLACE);
    router.replace(place.startsWith(RETURN) ? '/' : place);
    this.#enter(signIn);
  }

  #enter(signIn: Documents['SignInDocument']): void {
    setGuard(signIn.guard);
    this.account = signIn.account;
    this.status = 'in';
    if (!this.actsOnNodes) void this.#lookForNodes(signIn.account.login);
  }

  async #lookForNodes(owner: string): Promise<void> {
    try {
      this.#ownsNodes = (await get('/v1/nodes', { query: { owner, limit: 1 } })).items.length > 0;
    } catch {
      // The page then offers fewer changes until it is loaded again.
    }
  }

  #leave(): void {
    setGuard('');
    this.account = undefined;
    this.#ownsNodes = false;
    this.status = 'out';
  }
}

export const session = new Session();
