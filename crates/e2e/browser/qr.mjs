// Reads a QR code from its modules, as the standard says (ISO/IEC 18004), with the level of
// correction M and up to version 10. A code on a page has no faults, so nothing is corrected.

/** Words of correction in each block, and number of blocks, by version. */
const BLOCKS = [[10, 1], [16, 1], [26, 1], [18, 2], [24, 2], [16, 4], [18, 4], [22, 4], [22, 5], [26, 5]];
const MASKS = [
  (x, y) => (x + y) % 2, (x, y) => y % 2, (x) => x % 3, (x, y) => (x + y) % 3,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2, (x, y) => ((x * y) % 2) + ((x * y) % 3),
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2, (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2,
];

/** Returns the modules of a code that is drawn by a path of rectangles, one module a unit. */
export function modulesOf(path, edge = 4) {
  const dark = [...path.matchAll(/M(\d+) (\d+)h(\d+)v1h-\d+z/g)].map((shape) => shape.slice(1).map(Number));
  const size = Math.max(...dark.map(([x, , width]) => x + width)) - edge;
  const rows = Array.from({ length: size }, () => Array(size).fill(false));
  for (const [x, y, width] of dark) rows[y - edge].fill(true, x - edge, x - edge + width);
  return rows;
}

/** Returns the text of a code. `rows[y][x]` is true for a dark module. */
export function read(rows) {
  const version = (rows.length - 17) / 4;
  const mask = maskOf(rows);
  const words = wordsOf(rows, version, mask);
  const content = contentOf(words, version);
  const bits = content.flatMap((word) => Array.from({ length: 8 }, (_, index) => (word >> (7 - index)) & 1));
  const number = (from, length) => bits.slice(from, from + length).reduce((sum, bit) => sum * 2 + bit, 0);
  if (number(0, 4) !== 4) throw new Error('the code is no sequence of bytes');
  const width = version < 10 ? 8 : 16;
  const bytes = Array.from({ length: number(4, width) }, (_, index) => number(4 + width + index * 8, 8));
  return Buffer.from(bytes).toString();
}

/** Returns the mask that the code names beside its upper left mark. */
function maskOf(rows) {
  const places = [[8, 0], [8, 1], [8, 2], [8, 3], [8, 4], [8, 5], [8, 7], [8, 8], [7, 8]];
  for (let bit = 9; bit < 15; bit++) places.push([14 - bit, 8]);
  const format = places.reduce((sum, [x, y], bit) => sum | (Number(rows[y][x]) << bit), 0) ^ 0x5412;
  if (format >> 13 !== 0) throw new Error(`the level of correction is not M: ${format >> 13}`);
  return MASKS[(format >> 10) & 7];
}

/** Reads the words in pairs of columns from right to left, upwards and downwards in turn. */
function wordsOf(rows, version, mask) {
  const [size, bits] = [rows.length, []];
  let isUpwards = true;
  for (let right = size - 1; right > 0; right -= 2, isUpwards = !isUpwards) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++) {
      const y = isUpwards ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (!isFixed(x, y, size, version)) bits.push(Number(rows[y][x]) ^ Number(mask(x, y) === 0));
      }
    }
  }
  const words = Math.floor(bits.length / 8);
  return Array.from({ length: words }, (_, word) => bits.slice(word * 8, word * 8 + 8).reduce((sum, bit) => sum * 2 + bit, 0));
}

/** True for a module that is the same in all codes of the version, or that describes the code. */
function isFixed(x, y, size, version) {
  if (x === 6 || y === 6) return true;
  if ((x < 9 && y < 9) || (x >= size - 8 && y < 9) || (x < 9 && y >= size - 8)) return true;
  if (version >= 7 && ((x >= size - 11 && y < 6) || (x < 6 && y >= size - 11))) return true;
  const marks = alignment(size, version);
  const isCorner = (a, b) => (a === 6 && b === 6) || (a === 6 && b === size - 7) || (a === size - 7 && b === 6);
  return marks.some((a) => marks.some((b) => !isCorner(a, b) && Math.abs(x - a) <= 2 && Math.abs(y - b) <= 2));
}

/** Returns the middles of the marks of alignment. */
function alignment(size, version) {
  if (version === 1) return [];
  const last = size - 7;
  return version < 7 ? [6, last] : [6, (6 + last) / 2, last];
}

/** Returns the content, whose words alternate between the blocks. Later blocks may have one more. */
function contentOf(words, version) {
  const [correction, count] = BLOCKS[version - 1];
  const total = words.length - correction * count;
  const short = Math.floor(total / count);
  const isLong = (block) => block >= count - (total % count);
  const blocks = Array.from({ length: count }, () => []);
  let next = 0;
  for (let index = 0; index <= short; index++) {
    for (let block = 0; block < count; block++) {
      if (index < short || isLong(block)) blocks[block].push(words[next++]);
    }
  }
  return blocks.flat();
}
