/** The address of the screen: each has one that can be shared, with its filters and choices. */

/** The address to which the provider of sign-ins sends browsers back. */
export const RETURN = '/sign-in/return';
/** The only part of a path that cannot be decoded. No screen has it. */
const NOWHERE = '/';
/** Parameters of lists: their orders, and the numbers of their pages. */
const OF_LISTS = /(^|-)(sort|page)$/;
const PAGES = /(^|-)page$/;

class Router {
  path = $state(location.pathname);
  query = $state.raw(new URLSearchParams(location.search));

  constructor() {
    addEventListener('popstate', () => this.#read());
    document.addEventListener('click', (event) => this.#follow(event));
  }

  /** The parts of the path, decoded. An address that somebody has cut in the middle of a character leads to no screen. */
  get parts(): string[] {
    try {
      return this.path.split('/').filter(Boolean).map(decodeURIComponent);
    } catch {
      return [NOWHERE];
    }
  }

  go(address: string): void {
    history.pushState(null, '', address);
    this.#read();
    scrollTo(0, 0);
  }

  /** Shows another screen in the place of this one, to which the browser does not go back. */
  replace(address: string): void {
    history.replaceState(null, '', address);
    this.#read();
  }

  /** Changes parameters of the address; an empty value removes one. A choice shows other lists, which begin at their first pages. */
  set(changes: Record<string, string | undefined>, isNew = false): void {
    const query = new URLSearchParams(location.search);
    const isChoice = Object.keys(changes).some((name) => !OF_LISTS.test(name));
    if (isChoice) [...query.keys()].filter((name) => PAGES.test(name)).forEach((name) => query.delete(name));
    for (const [name, value] of Object.entries(changes)) {
      if (value) query.set(name, value);
      else query.delete(name);
    }
    const text = query.toString();
    const address = location.pathname + (text ? `?${text}` : '');
    if (isNew) history.pushState(null, '', address);
    else history.replaceState(null, '', address);
    this.#read();
  }

  get(name: string): string {
    return this.query.get(name) ?? '';
  }

  /** A whole number from 1 to `max`; the fallback if the address has none. */
  number(name: string, fallback: number, max: number): number {
    const text = this.get(name);
    const value = /^\d{1,9}$/.test(text) ? Number(text) : 0;
    return value >= 1 && value <= max ? value : fallback;
  }

  #read(): void {
    this.path = location.pathname;
    this.query = new URLSearchParams(location.search);
  }

  /** Shows the screen of a link of the page without loading the page again. */
  #follow(event: MouseEvent): void {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.('a');
    if (!link || link.target || link.hasAttribute('download')) return;
    if (link.origin !== location.origin || link.pathname.startsWith('/v1/')) return;
    event.preventDefault();
    this.go(link.pathname + link.search);
  }
}

export const router = new Router();

/** Returns an address of the page, from parts of any text and parameters. */
export function address(parts: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => !!pair[1]);
  const text = new URLSearchParams(given).toString();
  return `/${parts.map(encodeURIComponent).join('/')}${text ? `?${text}` : ''}`;
}
