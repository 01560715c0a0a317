/**
 * A list that the server pages, and sorts where it can. Otherwise the page reads it whole to sort it,
 * up to a bound: an order of a part of a list would be wrong.
 */
import { all, type Page } from './client';
import { asProblem } from './loader.svelte';
import type { Problem } from './client';
import type { Cell } from '../text/csv';

const WHOLE_MAX = 20_000;
const SERVER_PAGE_MAX = 1000;

/** Reads a page. The order is given only for columns by which the server sorts. */
export type Read<T> = (cursor: string | undefined, limit: number, order?: Order<T>) => Promise<Page<T>>;
export interface Order<T> {
  column: string;
  value: (item: T) => Cell;
  isDescending: boolean;
}

export class List<T> {
  rows = $state.raw<T[]>([]);
  problem = $state<Problem | undefined>();
  isLoading = $state(false);
  isLoaded = $state(false);
  /** Index of the page that is shown. */
  page = $state(0);
  hasNext = $state(false);
  order = $state.raw<Order<T> | undefined>();
  /** Cursors of the pages that were seen; the first has none. */
  #cursors: (string | undefined)[] = [undefined];
  #whole: T[] | undefined;
  #number = 0;

  constructor(
    private readonly read: Read<T>,
    readonly size = 50,
    /** Columns by which the server sorts. */
    private readonly sorts: string[] = [],
  ) {}

  /** Index of the first row in the list. */
  get first(): number {
    return this.page * this.size;
  }

  /** Reads the list from its beginning, or the page that is shown once more. */
  async load(isFresh = true): Promise<void> {
    if (isFresh) {
      this.page = 0;
      this.#cursors = [undefined];
    }
    this.#whole = undefined;
    await this.#show(this.page);
  }

  async turn(step: 1 | -1): Promise<void> {
    await this.#show(Math.max(0, this.page + step));
  }

  async sort(order: Order<T> | undefined): Promise<void> {
    this.order = order;
    this.#cursors = [undefined];
    await this.#show(0);
  }

  /** Every row of the list, in its order. */
  async whole(): Promise<T[]> {
    const order = this.#orderOfServer;
    const rows = this.#whole ?? (await all((cursor) => this.read(cursor, SERVER_PAGE_MAX, order), WHOLE_MAX));
    return order ? rows : sorted(rows, this.order);
  }

  /** The order, if the server keeps it. */
  get #orderOfServer(): Order<T> | undefined {
    return this.order && this.sorts.includes(this.order.column) ? this.order : undefined;
  }

  async #show(page: number): Promise<void> {
    const number = ++this.#number;
    this.isLoading = true;
    try {
      const isSortedHere = this.order && !this.#orderOfServer;
      const [rows, hasNext] = isSortedHere ? await this.#sortedPage(page) : await this.#serverPage(page);
      if (number !== this.#number) return;
      [this.rows, this.hasNext, this.page, this.problem] = [rows, hasNext, page, undefined];
      this.isLoaded = true;
    } catch (error) {
      if (number === this.#number) this.problem = asProblem(error);
    } finally {
      if (number === this.#number) this.isLoading = false;
    }
  }

  async #serverPage(page: number): Promise<[T[], boolean]> {
    const read = await this.read(this.#cursors[page], this.size, this.#orderOfServer);
    if (read.next) this.#cursors[page + 1] = read.next;
    return [read.items, !!read.next];
  }

  async #sortedPage(page: number): Promise<[T[], boolean]> {
    this.#whole ??= await all((cursor) => this.read(cursor, SERVER_PAGE_MAX), WHOLE_MAX);
    const rows = sorted(this.#whole, this.order);
    const end = (page + 1) * this.size;
    return [rows.slice(page * this.size, end), rows.length > end];
  }
}

function sorted<T>(rows: T[], order: Order<T> | undefined): T[] {
  if (!order) return rows;
  const sign = order.isDescending ? -1 : 1;
  return [...rows].sort((one, other) => sign * compare(order.value(one), order.value(other)));
}

/** Orders numbers by size and texts as people do. What is absent comes first. */
function compare(one: Cell, other: Cell): number {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  if (typeof one === 'string' && typeof other === 'string') return one.localeCompare(other, 'en', { numeric: true });
  return Number(one) - Number(other);
}

/** A list that is already here. */
export function listOf<T>(items: () => T[], size = 50): List<T> {
  return new List<T>(async (cursor, limit) => {
    const from = Number(cursor ?? 0);
    const end = from + limit;
    return { items: items().slice(from, end), next: items().length > end ? String(end) : undefined };
  }, size);
}
