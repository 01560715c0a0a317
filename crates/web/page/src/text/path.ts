/** Paths in filespaces, from their root, as parameters of addresses: see `names.ts`. */
import { bytesOf, parameterOfBytes, readableBytes } from './names';

const SLASH = 0x2f;

/** The parts of a path that lead to it, each with the path so far. */
export function steps(path: string): { name: string; path: string }[] {
  const bytes = bytesOf(path);
  const found: { name: string; path: string }[] = [];
  for (let begin = 0; begin < bytes.length; ) {
    const next = bytes.indexOf(SLASH, begin);
    const end = next < 0 ? bytes.length : next;
    if (end > begin) found.push({ name: readableBytes(bytes.subarray(begin, end)), path: parameterOfBytes(bytes.subarray(0, end)) });
    begin = end + 1;
  }
  return found;
}

/** The last part of a path, for people. */
export function lastName(path: string): string {
  return steps(path).at(-1)?.name ?? '/';
}

/** The last part of a path, as a parameter of an address. */
export function nameIn(path: string): string {
  const bytes = bytesOf(path);
  return parameterOfBytes(bytes.subarray(bytes.lastIndexOf(SLASH) + 1));
}

/** The directory that has the object. */
export function parent(path: string): string {
  const bytes = bytesOf(path);
  return parameterOfBytes(bytes.subarray(0, Math.max(0, bytes.lastIndexOf(SLASH))));
}

/** The path of an object on the node, from the filespace and the path in it. */
export function joined(filespace: string, path: string): string {
  const root = filespace === '/' ? new Uint8Array() : bytesOf(filespace);
  return parameterOfBytes(Uint8Array.from([...root, ...bytesOf(path)]));
}
