// Makes pictures of the page small: at most 256 colours, each pixel one byte.
import { crc32, deflateSync, inflateSync } from 'node:zlib';

/** Returns a PNG with a palette for one of Chromium's: 8 bits a channel, not interlaced. */
export function reduced(png) {
  const { width, height, channels, data } = decode(png);
  const colours = new Map();
  for (let at = 0; at < data.length; at += channels) {
    const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
    colours.set(colour, (colours.get(colour) ?? 0) + 1);
  }
  const palette = [...colours].sort((one, other) => other[1] - one[1]).slice(0, 256).map(([colour]) => colour);
  const index = new Map(palette.map((colour, at) => [colour, at]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const at = (y * width + x) * channels;
      const colour = (data[at] << 16) | (data[at + 1] << 8) | data[at + 2];
      let nearest = index.get(colour);
      if (nearest === undefined) index.set(colour, (nearest = closest(palette, colour)));
      rows[y * (width + 1) + 1 + x] = nearest;
    }
  }
  const head = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 8, 3, 0, 0, 0]);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  const table = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const parts = [['IHDR', head], ['PLTE', table], ['IDAT', deflateSync(rows, { level: 9 })], ['IEND', Buffer.alloc(0)]];
  return Buffer.concat([png.subarray(0, 8), ...parts.map(([name, body]) => part(name, body))]);
}

function closest(palette, colour) {
  const distance = (other) => {
    const of = (shift) => ((other >> shift) & 255) - ((colour >> shift) & 255);
    return of(16) ** 2 + of(8) ** 2 + of(0) ** 2;
  };
  let best = 0;
  palette.forEach((other, at) => {
    if (distance(other) < distance(palette[best])) best = at;
  });
  return best;
}

function part(name, body) {
  const content = Buffer.concat([Buffer.from(name), body]);
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(body.length, 0);
  ends.writeUInt32BE(crc32(content), 4);
  return Buffer.concat([ends.subarray(0, 4), content, ends.subarray(4)]);
}

function decode(png) {
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const channels = png[25] === 6 ? 4 : 3;
  const bodies = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') bodies.push(png.subarray(at + 8, at + 8 + length));
    at += length + 12;
  }
  const raw = inflateSync(Buffer.concat(bodies));
  const stride = width * channels;
  const data = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x++) {
      const left = x >= channels ? data[y * stride + x - channels] : 0;
      const up = y > 0 ? data[(y - 1) * stride + x] : 0;
      const corner = x >= channels && y > 0 ? data[(y - 1) * stride + x - channels] : 0;
      data[y * stride + x] = raw[y * (stride + 1) + 1 + x] + predicted(filter, left, up, corner);
    }
  }
  return { width, height, channels, data };
}

function predicted(filter, left, up, corner) {
  if (filter === 1) return left;
  if (filter === 2) return up;
  if (filter === 3) return (left + up) >> 1;
  if (filter !== 4) return 0;
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  return a <= b && a <= c ? left : b <= c ? up : corner;
}
