/** Who uses the page: the sign-in, and what the person may do. */
import { Problem, get, onSignedOut, post, setGuard, type Documents } from './client';

type Account = Documents['AccountDocument'];

class Session {
  status = $state<'unknown' | 'out' | 'in'>('unknown');
  account = $state<Account | undefined>();

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

  /** True if the person may see other people: see the table of roles. */
  get seesPeople(): boolean {
    return this.account?.roles.some((held) => ['system', 'auditor', 'tenant'].includes(held.role)) ?? false;
  }

  #enter(signIn: Documents['SignInDocument']): void {
    setGuard(signIn.guard);
    this.account = signIn.account;
    this.status = 'in';
  }

  #leave(): void {
    setGuard('');
    this.account = undefined;
    this.status = 'out';
  }
}

export const session = new Session();
