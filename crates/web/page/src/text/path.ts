/** Paths in filespaces, from their root, and paths at a node. */
import type { Documents } from '../api/client';
import type { Word } from './definition';

type Name = Documents['Bytes'];

/** The parts of a path that lead to it, each with the path so far. */
export function steps(path: string): { name: string; path: string }[] {
  const names = path.split('/').filter(Boolean);
  return names.map((name, index) => ({ name, path: `/${names.slice(0, index + 1).join('/')}` }));
}

export function lastName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1) || '/';
}

/** The directory that has the object. */
export function parent(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

/** The path at the node: that of the filespace, and the path in it. Names of any bytes stay so. */
export function atNode(filespace: string, path: Name): Word {
  const root = filespace === '/' ? '' : filespace;
  if (typeof path === 'string') return root + path || '/';
  const inside = Uint8Array.from(atob(path.bytes), (character) => character.charCodeAt(0));
  return [...new TextEncoder().encode(root), ...inside];
}
