/** Who uses the page: the sign-in, and what the person may do. */
import { RETURN, router } from '../shell/router.svelte';
import { Problem, all, get, onSignedOut, post, setGuard, type Documents } from './client';

type Account = Documents['AccountDocument'];

/** Keys of the place to which the person returns from the provider, and of the mark that the provider knows the person. */
const PLACE = 'holdfast-place';
const PROVIDER = 'holdfast-provider';

/** Roles that act on nodes: run work, end it, and change them. */
const ACTING: Documents['Role'][] = ['system', 'operator', 'tenant'];

class Session {
  status = $state<'unknown' | 'out' | 'in'>('unknown');
  account = $state<Account | undefined>();
  /** Names of the nodes on which the person may act. They are looked up only for persons who may not act on all. */
  #nodes = $state.raw<ReadonlySet<string>>(new Set());
  /** Number of sign-ins and sign-outs: an answer that comes after the next one is for nobody. */
  #visit = 0;

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
    const visit = this.#visit;
    const account = await get('/v1/account');
    if (visit === this.#visit) this.account = account;
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

  /** Domains in which the person has one of these roles. */
  domainsOf(...roles: Documents['Role'][]): string[] {
    const held = (this.account?.roles ?? []).filter((one) => roles.includes(one.role));
    return [...new Set(held.flatMap((one) => one.domain ?? []))];
  }

  /** True if there are domains about which the person may read reports: an owner may not. */
  get hasReports(): boolean {
    return this.account?.roles.some((held) => held.role !== 'owner') ?? false;
  }

  /** True if the person may change pools, volumes and libraries. */
  get changesStorage(): boolean {
    return this.covers(undefined, 'system', 'storage');
  }

  /** True if there are nodes on which the person may act: to run work, to end it, to change them. */
  get actsOnNodes(): boolean {
    return this.#nodes.size > 0 || this.has(...ACTING);
  }

  /** True if the person may act on the node. */
  actsOn(node: string): boolean {
    return this.covers(undefined, ...ACTING) || this.#seesOnlyOwn || this.#nodes.has(node);
  }

  /** True if the person owns the node. The role of an owner, as customers of a domain have it, gives no right to the nodes of others. */
  owns(node: { owner?: string | null } | undefined): boolean {
    return !!node?.owner && node.owner === this.account?.login;
  }

  /** True if the person sees no node but those on which the person may act. */
  get #seesOnlyOwn(): boolean {
    return this.account?.roles.every((held) => held.role === 'owner' || ACTING.includes(held.role)) ?? false;
  }

  /** True if the person may pause and cancel the work of an event. */
  mayCancel(event: Documents['EventDocument']): boolean {
    return event.node ? this.actsOn(event.node) : this.startsTasks;
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
    const visit = ++this.#visit;
    setGuard(signIn.guard);
    this.account = signIn.account;
    this.status = 'in';
    this.#nodes = new Set();
    if (!this.covers(undefined, ...ACTING)) void this.#lookForNodes(signIn.account, visit);
  }

  /** Looks for the nodes that the person owns, and for those of the domains in which the person acts. */
  async #lookForNodes(account: Account, visit: number): Promise<void> {
    const domains = this.#seesOnlyOwn ? [] : account.roles.filter((held) => ACTING.includes(held.role)).map((held) => held.domain ?? undefined);
    const filters = [{ owner: account.login }, ...domains.map((domain) => ({ domain }))];
    try {
      const found = await Promise.all(filters.map((filter) => all((cursor) => get('/v1/nodes', { query: { ...filter, cursor, limit: 1000 } }))));
      if (visit === this.#visit) this.#nodes = new Set(found.flat().map((node) => node.name));
    } catch {
      // The page then offers fewer changes until it is loaded again.
    }
  }

  #leave(): void {
    this.#visit += 1;
    setGuard('');
    this.account = undefined;
    this.#nodes = new Set();
    this.status = 'out';
  }
}

export const session = new Session();
